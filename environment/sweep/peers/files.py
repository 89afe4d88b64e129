"""Models in the files that programs read, made once and kept."""

import json
import shutil
from pathlib import Path


def name(model):
    return model.replace(":", "-").replace("/", "-")


def made(place, name, make):
    """The folder or file of this name, made by `make(path)` if it is not there; never half of it."""
    path, unfinished = place / name, place / f"unfinished-{name}"
    if not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.unlink(missing_ok=True)
        make(unfinished)
        unfinished.rename(path)
    return path


def checkpoint(model, place):
    """A folder as transformers saves it."""
    shapes = {"random:gpt2": gpt2, "random:llama-3.2-1b": llama_1b}
    if model not in shapes:
        if not Path(model, "config.json").is_file():
            raise SystemExit(f"there is no checkpoint {model}, and other programs know no such shape; there are {', '.join(shapes)}")
        return Path(model)

    def make(folder):
        import torch

        torch.manual_seed(0)
        shapes[model]().save_pretrained(folder)

    return made(place, name(model), make)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def llama_1b():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64}
    sizes = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    config = LlamaConfig(**sizes, **heads, max_position_embeddings=8192, rope_theta=5e5, tie_word_embeddings=True)
    return LlamaForCausalLM(config).to(torch.bfloat16)


class Numbers:
    """A tokenizer whose tokens are called t0, t1, ..."""

    def __init__(self, source):
        self.size = json.loads((source / "config.json").read_text())["vocab_size"]
        self.bos_token = self.eos_token = self.unk_token = f"t{self.size - 1}"

    def get_vocab(self):
        return {f"t{number}": number for number in range(self.size)}

    def __getattr__(self, _):
        return None


def gguf(model, format, options):
    """A GGUF file: the one that set-up fetches, that of a path, or one of that shape, made and quantized by llama.cpp."""
    if format == "file":
        file = options.smollm2 if model == "smollm2" else Path(model)
        if not file.is_file():
            raise SystemExit(f"there is no file of {model} (smollm2: cargo lab setup --model smollm2)")
        return file
    if format == "f32":
        return made(options.files, f"{name(model)}.f32.gguf", lambda path: write_gguf(checkpoint(model, options.files), path))

    def quantize(path):
        import llama_cpp

        # It says a line of each tensor.
        llama_cpp._logger.set_verbose(False)
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{format.upper()}")
        # The head too, but where the format is a mixture.
        params.pure = not format.endswith("_m")
        source = gguf(model, "f32", options)
        if llama_cpp.llama_model_quantize(str(source).encode(), str(path).encode(), params):
            raise SystemExit(f"llama.cpp cannot make {format} of {source}")

    return made(options.files, f"{name(model)}.{format}.gguf", quantize)


def write_gguf(checkpoint, path):
    """GPT-2 in float32."""
    import gguf
    import numpy as np
    from safetensors.numpy import load_file

    config = json.loads((checkpoint / "config.json").read_text())
    if config["model_type"] != "gpt2":
        raise SystemExit(f"no GGUF file is made of a model of type {config['model_type']}: name a file")
    weights = {key.removeprefix("transformer."): value for key, value in load_file(checkpoint / "model.safetensors").items()}
    width, vocabulary = config["n_embd"], config["vocab_size"]
    out = gguf.GGUFWriter(path, "gpt2")
    out.add_context_length(config["n_positions"])
    out.add_embedding_length(width)
    out.add_feed_forward_length(4 * width)
    out.add_block_count(config["n_layer"])
    out.add_head_count(config["n_head"])
    out.add_layer_norm_eps(config["layer_norm_epsilon"])
    out.add_vocab_size(vocabulary)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([f"t{number}".encode() for number in range(vocabulary)])
    out.add_token_types([1] * vocabulary)
    out.add_token_merges(["t 0"])
    out.add_bos_token_id(vocabulary - 1)
    out.add_eos_token_id(vocabulary - 1)
    names = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    names |= {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output"}
    names |= {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    for key, value in weights.items():
        module, kind = key.rsplit(".", 1)
        block = ""
        if module.startswith("h."):
            _, number, module = module.split(".", 2)
            block = f"blk.{number}."
        if module not in names:
            continue
        # transformers' Conv1D has its matrices the other way round.
        value = value.T if module.split(".")[-1].startswith("c_") and value.ndim == 2 else value
        out.add_tensor(f"{block}{names[module]}.{kind}", np.ascontiguousarray(value, dtype=np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
