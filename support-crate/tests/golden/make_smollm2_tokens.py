"""Token ids of awkward texts, by SmolLM2's tokenizer as llama.cpp reads it from the GGUF file.

python make_smollm2_tokens.py FILE.gguf    (llama-cpp-python transformers)

Writes smollm2/tokens.json beside this file: {text: ids}. Where transformers' reading of the same file gives other ids, both
are printed and the text is left out: the two references must agree.
"""
import json, os, random, sys
os.environ["HF_HUB_OFFLINE"] = "1"
from llama_cpp import Llama
from transformers import AutoTokenizer
folder, name = os.path.split(os.path.abspath(sys.argv[1])); here = os.path.dirname(os.path.abspath(__file__))
texts = [
    " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t\t x", " \n \n ", "a  b   c    d", "trailing space ", "  leading", "\u00a0non\u00a0breaking", "\u200bzero\u200dwidth", "\ufeffmark",
    "0", "00", "007", "1234567890", "3.14159", "1,000,000.00", "-1e-10", "2026-11-25T12:34:56Z", "٣٤٥", "५६७", "①②③", "Ⅷ", "½", "x²", "1st 2nd 3rd", "0xDEADBEEF", "1_000",
    "don't", "DON'T", "we'll they've I'm he'd", "'s 't 're", "’s curly", "o'clock", "rock'n'roll", "''", "\"quoted\"", "«guillemets»", "…", "—", "-- --- ----", "!!!???", "@#$%^&*()",
    "naïve café", "nai\u0308ve cafe\u0301", "ﬁ ﬂ ﬀ", "ǆ Ǆ ǅ", "İstanbul ıI", "ẞ ß SS", "ΑΒΓ αβγ ς", "Привет, мир", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界", "こんにちは世界", "안녕하세요", "ไทย ไทย", "Tiếng Việt",
    "👍", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "☕️", "e\u0301\u0302\u0303", "Z\u0351\u036b\u0343a\u0369\u0349l\u035cg\u0341o\u0300", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𐍈𐌰", "\U0001F9D1\u200d\U0001F680",
    "fn main() {\n    println!(\"{}\", 1 << 3);\n}\n", "def f(x):\n\treturn x**2  # square\n", "if (a && b || !c) { x += 1; }", "SELECT * FROM t WHERE id = 'x';", "<div class=\"a\">&nbsp;</div>", "C:\\path\\to\\file", "https://example.org/a?b=c&d=%20#e",
    "foo_bar fooBar FooBar FOO_BAR foo-bar", "$x_1^2 + \\frac{a}{b}$", "{\"k\": [1, null, true]}", "0b1010 & 0o17", "a\\n\\tb", "\x00", "\x1b[31mred\x1b[0m", "\x7f",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "a<|im_end|>b", " <|im_start|> ", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start", "|im_start|>", "< |im_start|>", "<|IM_START|>", "<|im_start|><|im_start|>", "<|unknown|>", "<repo_name>", "<file_sep>x", "<s></s>", "[INST] x [/INST]",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab", "the the the", "Supercalifragilisticexpialidocious", "antidisestablishmentarianism", "xqzjvk", "I", "a", "A", "z" * 200, " " * 90 + "x", "\n" * 40,
]
rng = random.Random(7); pieces = [t for t in texts if len(t) < 40]
texts += ["".join(rng.sample(pieces, 4)) for _ in range(120)]
texts += ["".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xa0, 0x250), rng.randrange(0x370, 0x600), rng.randrange(0x4e00, 0x4f00), rng.randrange(0x1f300, 0x1f650)])) for _ in range(24)) for _ in range(60)]
llama = Llama(sys.argv[1], vocab_only=True, verbose=False); hf = AutoTokenizer.from_pretrained(folder, gguf_file=name)
kept, differ = {}, 0
for text in texts:
    ids = llama.tokenize(text.encode(), add_bos=False, special=True); other = hf(text, add_special_tokens=False).input_ids
    if ids == other: kept[text] = ids
    else: differ += 1; print("differ:", ascii(text)[:90], ids[:12], other[:12])
json.dump(kept, open(here + "/smollm2/tokens.json", "w"), ensure_ascii=True, separators=(",", ":")); print(len(kept), "texts,", differ, "on which the references differ")
