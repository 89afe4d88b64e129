"""The programs that are measured: each loads a model in a format, and generates.

`generate(prompts, new_tokens)` returns when the first new tokens were there, and when the last: seconds since it was called.
"""

import os
import time

import files


class Stopwatch:
    """Notes when the first and the last new tokens come, from whatever a program calls for each."""

    def __init__(self):
        self.start, self.first, self.last = time.perf_counter(), None, None

    def tick(self):
        self.last = time.perf_counter()
        self.first = self.first or self.last

    def seconds(self):
        return self.first - self.start, self.last - self.start


class Transformers:
    """Hugging Face's transformers."""

    packages = ("transformers", "torch")
    formats = ("float32", "bfloat16")
    batches = True

    def __init__(self, model, format, options):
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(options.threads)
        folder = files.checkpoint(model, options.files)
        self.take(AutoModelForCausalLM.from_pretrained(folder, **self.loaded_as(torch, format)).eval())

    def loaded_as(self, torch, format):
        return {"dtype": getattr(torch, format)}

    def take(self, model):
        self.model, self.vocabulary = model, model.config.vocab_size
        # Nothing stops early.
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = 0

    def generate(self, prompts, new_tokens):
        import torch

        ids, streamer = torch.tensor(prompts), Streamer()
        options = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens, "do_sample": False, "streamer": streamer}
        with torch.inference_mode():
            self.model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return streamer.seconds()


class Streamer(Stopwatch):
    """What transformers hands tokens to; the first time, those of the prompt."""

    def __init__(self):
        super().__init__()
        self.has_prompt = False

    def put(self, _):
        if self.has_prompt:
            self.tick()
        self.has_prompt = True

    def end(self):
        pass


class BitsAndBytes(Transformers):
    """Linear layers by bitsandbytes, the rest by transformers."""

    packages = ("bitsandbytes", "transformers", "torch")
    formats = ("int8+float32", "nf4", "nf4+float32", "fp4", "fp4+float32")

    def loaded_as(self, torch, format):
        from transformers import BitsAndBytesConfig

        kind, _, rest = format.partition("+")
        dtype = torch.float32 if rest == "float32" else torch.bfloat16
        four_bits = {"load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_compute_dtype": dtype}
        config = BitsAndBytesConfig(**({"load_in_8bit": True} if kind == "int8" else four_bits))
        return {"quantization_config": config, "device_map": "cpu", "dtype": dtype}


class OpenVino(Transformers):
    """OpenVINO by optimum-intel; int4 in groups of 64. Unless in float32, it keeps keys and values in 8 bits."""

    packages = ("openvino", "optimum-intel")
    formats = ("float32", "int8", "int4-64")

    def __init__(self, model, format, options):
        from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

        weights = {
            "float32": {"load_in_8bit": False},
            "int8": {"quantization_config": OVWeightQuantizationConfig(bits=8)},
            "int4-64": {"quantization_config": OVWeightQuantizationConfig(bits=4, sym=True, group_size=64, ratio=1.0)},
        }[format]

        def export(folder):
            source = files.checkpoint(model, options.files)
            OVModelForCausalLM.from_pretrained(source, export=True, compile=False, **weights).save_pretrained(folder)

        folder = files.made(options.files, f"{files.name(model)}-openvino-{format}", export)
        hints = {"INFERENCE_NUM_THREADS": options.threads, "PERFORMANCE_HINT": "LATENCY"}
        if format == "float32":
            hints |= {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        self.take(OVModelForCausalLM.from_pretrained(folder, ov_config=hints))


class CTranslate2:
    """CTranslate2."""

    packages = ("ctranslate2",)
    formats = ("float32", "int8")
    batches = True

    def __init__(self, model, format, options):
        import ctranslate2

        source = files.checkpoint(model, options.files)

        def convert(folder):
            converter = ctranslate2.converters.TransformersConverter(str(source))
            # There are no files of a tokenizer: tokens are called by their numbers.
            converter.load_tokenizer = lambda *_, **__: files.Numbers(source)
            converter.convert(str(folder), quantization=format)

        self.vocabulary = files.Numbers(source).size
        folder = files.made(options.files, f"{files.name(model)}-ctranslate2-{format}", convert)
        threads = {"intra_threads": options.threads, "inter_threads": 1}
        self.generator = ctranslate2.Generator(str(folder), device="cpu", compute_type=format, **threads)

    def generate(self, prompts, new_tokens):
        named = [[f"t{token}" for token in prompt] for prompt in prompts]
        length = {"max_length": new_tokens, "min_length": new_tokens, "max_batch_size": len(prompts)}
        watch = Stopwatch()
        self.generator.generate_batch(named, include_prompt_in_result=False, end_token=[], callback=lambda _: watch.tick(), **length)
        return watch.seconds()


class LlamaCpp:
    """llama.cpp by llama-cpp-python."""

    packages = ("llama-cpp-python",)
    formats = ("file", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_0+head6", "q4_1", "q4_k_m")
    batches = False

    def __init__(self, model, format, options):
        from llama_cpp import Llama

        file = files.gguf(model, format, options)
        threads = {"n_threads": options.threads, "n_threads_batch": options.threads}
        self.model = Llama(str(file), n_ctx=options.longest, n_batch=512, verbose=False, **threads)
        self.vocabulary, self.clear = self.model.n_vocab(), self.model.reset

    def read(self, tokens, _start):
        self.model.eval(tokens)

    def generate(self, prompts, new_tokens):
        [prompt] = prompts
        watch = Stopwatch()
        self.clear()
        self.read(prompt, 0)
        watch.tick()
        # Which tokens come makes no difference here, and choosing them in Python would.
        for i in range(new_tokens - 1):
            self.read([prompt[i % len(prompt)]], len(prompt) + i)
        watch.tick()
        return watch.seconds()


class IkLlamaCpp(LlamaCpp):
    """ik_llama.cpp by ik-llama-cpp-python, whose own `generate` chooses tokens in Python."""

    packages = ("ik-llama-cpp-python",)

    def __init__(self, model, format, options):
        from ik_llama_cpp import IkLlama, _ctypes_api, _internals

        file = files.gguf(model, format, options)
        self.model = IkLlama(str(file), n_ctx=options.longest, n_threads=options.threads, verbose=False)
        self.context, self.vocabulary = self.model._context, self.model._model.n_vocab
        self.batch, self.free, self.clear = _internals.make_batch_range, _ctypes_api.llama_batch_free, self.context.kv_cache_clear

    def read(self, tokens, start):
        for at in range(0, len(tokens), self.context._n_ubatch):
            batch = self.batch(tokens[at : at + self.context._n_ubatch], pos_start=start + at)
            failed = self.context.decode(batch)
            self.free(batch)
            if failed:
                raise SystemExit(f"ik_llama.cpp cannot read {len(tokens)} tokens after {start}: {failed}")


class MistralRs:
    """mistral.rs, by the times that it reports itself."""

    packages = ("mistralrs",)
    formats = ("file", "q8_0", "q4_0", "q4_0+head6", "q4_1", "q4_k_m")
    batches = False
    vocabulary = 2

    def __init__(self, model, format, options):
        os.environ["RAYON_NUM_THREADS"] = str(options.threads)
        from mistralrs import CompletionRequest, Runner, Which

        file = files.gguf(model, format, options)
        which = Which.GGUF(tok_model_id=None, quantized_model_id=str(file.parent), quantized_filename=file.name)
        # Every prompt here begins another one.
        self.runner, self.request = Runner(which=which, prefix_cache_n=0), CompletionRequest

    def generate(self, prompts, new_tokens):
        [prompt] = prompts
        # It takes no tokens but a text, of which a word is a token.
        text = " ".join(["word"] * len(prompt))
        asked = self.request(model="m", prompt=text, max_tokens=new_tokens, temperature=0.0, ignore_eos=True)
        usage = self.runner.send_completion_request(asked).usage
        if abs(usage.prompt_tokens - len(prompt)) > 1 or usage.completion_tokens != new_tokens:
            raise SystemExit(f"{usage.prompt_tokens} tokens of {len(prompt)}, then {usage.completion_tokens} of {new_tokens}")
        return usage.total_prompt_time_sec, usage.total_prompt_time_sec + usage.total_completion_time_sec


ENGINES = {
    "transformers": Transformers,
    "bitsandbytes": BitsAndBytes,
    "openvino": OpenVino,
    "ctranslate2": CTranslate2,
    "llama.cpp": LlamaCpp,
    "ik_llama.cpp": IkLlamaCpp,
    "mistral.rs": MistralRs,
}
