"""transformers on PyTorch: evaluation mode, inference mode, fused attention and optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contenders import OPTIMIZER, THREADS, padded_batches


class Contender:
    """See `benchmarks.contenders.Contender`."""

    def __init__(self, job: dict[str, Any]) -> None:
        import torch
        import transformers

        torch.set_num_threads(THREADS)
        self.versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        self._torch = torch
        self._model = transformers.AlbertForSequenceClassification.from_pretrained(
            job["model"], attn_implementation="sdpa"
        )
        self._batches = [
            {name: torch.from_numpy(value.astype(np.int64)) for name, value in batch.items()}
            for batch in padded_batches(job)
        ]
        self._model.train("labels" in job)
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=OPTIMIZER["learning_rate"], weight_decay=OPTIMIZER["weight_decay"], fused=True
        )

    def predict(self) -> np.ndarray:
        with self._torch.inference_mode():
            found = [
                self._model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits.softmax(-1).numpy()
                for batch in self._batches
            ]
        return np.concatenate(found)

    def train_step(self, number: int) -> float:
        batch = self._batches[number]
        self._optimizer.zero_grad()
        loss = self._model(input_ids=batch["ids"], attention_mask=batch["mask"], labels=batch["labels"]).loss
        loss.backward()
        self._torch.nn.utils.clip_grad_norm_(self._model.parameters(), OPTIMIZER["clip_norm"])
        self._optimizer.step()
        return float(loss.detach())
