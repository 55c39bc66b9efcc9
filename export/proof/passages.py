"""Passages that artefacts are compared on: many scripts, a character to many sentences, what tokenizers trip over."""

from __future__ import annotations

ENGLISH = (
    "a",
    "Yes.",
    "No, not yet.",
    "The library keeps its oldest maps in a room that few visitors ever see.",
    "In 1869, after 12,500 miles at sea, the crew came home; nobody had believed that they would.",
    "Rain fell all night. By morning the river stood a hand's breadth below the bridge, and the miller, who had seen "
    "two floods in his life, carried the flour upstairs.",
    "She asked whether the 4:15 train still stopped at Marlow. It did, said the clerk, but only on Tuesdays.",
    "MAKE HASTE, said the sign, AND MIND THE STEP.",
    "To boil an egg you need water, a pot, a fire and some patience; most people run short of the last.",
    "The committee met for three hours and agreed on the date of its next meeting.",
    "Copper turns green in the open air, iron turns red, and gold stays what it was when the kings were buried.",
    "An hour before sunrise the baker's boy came down the lane with his cart, whistling the same four notes that he "
    "had whistled every morning since the spring, and the dogs, who had long given up barking at him, followed him as "
    "far as the well. There he stopped, as always, to drink. He did not know that anybody watched him. From the window "
    "over the chandler's shop an old woman counted the loaves; she had counted them for eleven years, and had never "
    "told a soul why.",
)
GERMAN = (
    "Ja.",
    "Der Fluß trat über die Ufer; niemand hatte es für möglich gehalten.",
    "Die Straßenbahnhaltestelle wurde am 3. Oktober verlegt.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "„Morgen“, sagte der Müller, „mahlen wir wieder – wenn das Rad noch da ist.“",
    "Donaudampfschifffahrtsgesellschaftskapitän",
)
FRENCH = (
    "Où ?",
    "L'été dernier, nous avons dîné à la lueur d'une bougie, près du vieux moulin.",
    "Ça va ? — Très bien, merci ; et vous ?",
    "Le cœur de l'œuvre naïve : 1 234,56 € à l'aîné.",
    "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne d'exquis rôtis de bœuf.",
)
RUSSIAN = (
    "Да.",
    "Река вышла из берегов, и мельник понёс муку наверх.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Поезд № 17 отправляется в 23:45 со второго пути.",
)
GREEK = (
    "Ναι.",
    "Το ποτάμι ξεχείλισε τη νύχτα, και ο μυλωνάς ανέβασε το αλεύρι στο πάνω πάτωμα.",
    "ΟΔΥΣΣΕΥΣ ΚΑΙ ΟΙ ΣΥΝΤΡΟΦΟΙ ΤΟΥ",
    "ἄνδρα μοι ἔννεπε, μοῦσα, πολύτροπον",
)
CHINESE = (
    "好",
    "夜里下了一整夜的雨，到早晨河水已经涨到桥下。",
    "圖書館把最老的地圖放在一間很少有人進去的房間裡。",
    "他在2010年花了1,000元買了三本書，至今只讀完一本。",
)
JAPANESE = (
    "はい",
    "雨が一晩中降り続き、朝には川の水が橋のすぐ下まで来ていた。",
    "パン屋の少年は、いつもの四つの音を口笛で吹きながら坂を下りてきた。",
    "ｶﾀｶﾅ と カタカナ",
)
KOREAN = (
    "네.",
    "밤새 비가 내려 아침에는 강물이 다리 바로 아래까지 차올랐다.",
)
ARABIC = (
    "نعم",
    "هطل المطر طوال الليل، وفي الصباح كان النهر على وشك أن يغمر الجسر.",
    "اشترى ٣ كتب بمبلغ ١٬٠٠٠ دينار.",
    "بِسْمِ ٱللَّٰهِ",
)
HEBREW = ("כן", "כל הלילה ירד גשם, ובבוקר עמד הנהר ממש מתחת לגשר.")
HINDI = (
    "हाँ",
    "रात भर बारिश होती रही, और सुबह तक नदी पुल के ठीक नीचे आ गई थी।",
    "क्षत्रिय, ज्ञान, श्रृंखला",
)
THAI = (
    "ใช่",
    "ฝนตกทั้งคืน พอถึงเช้าน้ำในแม่น้ำก็สูงเกือบถึงสะพาน",
    "กรุงเทพมหานคร อมรรัตนโกสินทร์",
)
DIGITS = (
    "7",
    "2010, 1,000,000, 12, and in 1987, 3.14 % of 2,000",
    "Call 555-0123 before 09:00, or write to box 12,004.",
    "1,2,3,4,5,6,7,8,9,10",
    "x = (a + b)² / 2 ≤ 10⁻³",
)
MARKS = (
    "é and e\u0301, ñ and n\u0303, å and a\u030a",
    "o\u0308\u0304 e\u0301\u0323 \u0345 Z\u0351\u036b\u0343\u036a\u0302",
    "İstanbul, ẞ and ß, ﬁne ligatures, ½ and ²",
    "``quoted'' and ''quoted``, “curly” and ‘single’",
    "\u00a0no-break\u3000and wide\u2009spaces",
    "zero\u200bwidth, join\u200dersand a\u00adsoft hyphen",
    "[CLS] [SEP] <pad> <unk> are words here",
    "https://example.org/a?b=c&d=e#f and name@example.org",
    "if (x < 3) { return y[0]; } // no-op",
    "supercalifragilistic" * 6,
)
EMOJI = (
    "🙂",
    "😀 naïve café 🎉🎉 done ✔️",
    "👩\u200d👩\u200d👧 came by 🚲 from 🇫🇷",
)
PLAIN_PASSAGES = (
    *ENGLISH,
    *GERMAN,
    *FRENCH,
    *RUSSIAN,
    *GREEK,
    *CHINESE,
    *JAPANESE,
    *KOREAN,
    *ARABIC,
    *HEBREW,
    *HINDI,
    *THAI,
    *DIGITS,
)
PASSAGES = (*PLAIN_PASSAGES, *MARKS, *EMOJI)
# Mixed scripts, as long as a model can read and longer: cut to its greatest length.
LONG_PASSAGE = " ".join(PASSAGES)
