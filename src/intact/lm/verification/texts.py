"""Texts and conversations by which readings of a model are compared."""

TEXTS = (
    "The capital of France is Paris.", "", " ", "  two  blanks ", "\n\n\ttabs\r\nand lines\n",
    "don't we'LL I'm", "1234567890 3.14159 1,000,000", "def f(x):\n    return x ** 2  # code",
    "Gr\u00fc\u00dfe, na\u00efve caf\u00e9, \u0130stanbul",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \u4e2d\u6587\u6587\u672c \ud55c\uad6d\uc5b4",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f642\U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 \ufb01 \u200b\u00a0\ufeff", "a" * 300,
    "<s></s><|im_start|>user<|endoftext|>[INST]<think>", "!!!???...---___", "\x00\x01\x7f",
    "camelCase snake_case 2x4", "MiXeD cAsE", "http://example.com/a?b=c&d=%20",
    "\u2211\u222b\u221a\u2260 \u03b1\u03b2\u03b3 \u211d", "\u2028\u2029\x0b\x0c", "'s 't 're'Ve",
    "   \n   \n ", "end ",
)  # fmt: skip
"""That tokenizers are apt to cut differently."""

CONVERSATIONS = (
    ({"role": "user", "content": "Hello"},),
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}),
    ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"},
     {"role": "user", "content": "Bye"}),
)  # fmt: skip
"""In the form of OpenAI's protocol."""
