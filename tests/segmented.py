"""Chinese sentences with their words marked by hand, and a SentencePiece vocabulary of them."""

from __future__ import annotations

import functools
import io
import random

import sentencepiece

from albert_tf.tokenizer import AlbertTokenizer

# "|" between words.
SENTENCES = (
    "本章|主要|面向|专业|管理员|，|而|不太|面向|使用|家庭|网络|的|个人|。",
    "我们|将|学习|手动|创建|RAID|和|LVM|卷|，|而非|在|安装|系统|时|创建|。",
    "操作系统|的|内核|可以|由|用户|自行|编译|。",
    "管理员|手册|以|不同|的|视角|回到|前面|讲过|的|几个|方面|：|大规模|部署|系统|。",
    "软件包|管理器| apt-get |会|自动|下载|软件包|，|并且|检查|数字|签名|。",
    "1990|年代|，|Debian|项目|开始|发布|操作系统|，|共有|2,010|个|软件包|。",
    "虚拟化|技术|与|监控|工具|是|高级|管理|的|一部分|。",
    "使用|网络|安装|系统|之前|，|请|先|检查|硬件|。",
)


def documents(count: int, *, seed: int) -> list[list[str]]:
    """Documents of these sentences, with the marks."""
    generator = random.Random(seed)
    return [generator.choices(SENTENCES, k=generator.randint(3, 9)) for _ in range(count)]


@functools.cache
def tokenizer() -> AlbertTokenizer:
    """Vocabulary in which many pieces hold several characters, within words and across them."""
    lines = ["".join(s.replace("|", "") for s in document) for document in documents(300, seed=2)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=210, hard_vocab_limit=False,
        character_coverage=1.0, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, num_threads=1, minloglevel=2,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], max_sentencepiece_length=4,
    )  # fmt: skip
    return AlbertTokenizer(model.getvalue())
