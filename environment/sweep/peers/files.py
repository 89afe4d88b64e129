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
    source = checkpoint(model, options.files)
    is_llama = json.loads((source / "config.json").read_text())["model_type"] == "llama"
    if is_llama and not model.startswith("random:"):
        raise SystemExit(f"no GGUF file is made of {model}, a Llama in a folder: name a file of it")
    full = "bf16" if is_llama else "f32"
    if format == full:
        return made(options.files, f"{name(model)}-words.{full}.gguf", lambda path: write_gguf(source, path))
    kind, _, head = format.partition("+")

    def quantize(path):
        import llama_cpp

        # It says a line of each tensor.
        llama_cpp._logger.set_verbose(False)
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind.upper()}", None)
        if params.ftype is None:
            raise SystemExit(f"no GGUF file of {model} is made in {format}")
        # In the format too is the head, but where that is a mixture, or the name says that it is in Q6_K.
        params.pure = not head and not kind.endswith("_m")
        if llama_cpp.llama_model_quantize(str(gguf(model, full, options)).encode(), str(path).encode(), params):
            raise SystemExit(f"llama.cpp cannot make {format} of {model}")

    return made(options.files, f"{name(model)}-words.{format}.gguf", quantize)


# What llama.cpp calls tensors.
NAMES = {
    "gpt2": {
        **{"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"},
        **{"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output"},
        **{"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
    },
    "llama": {
        **{"embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm"},
        **{"post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate"},
        **{"mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"},
        **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    },
}


def words(size):
    """A vocabulary in which "word" is a token, also after a space, for programs that take nothing but texts."""
    from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode

    merges = ["w o", "wo r", "wor d", "\u0120 word"]
    known = [*bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in merges)]
    return known + [f"t{number}" for number in range(len(known), size)], merges


def write_gguf(checkpoint, path):
    """GPT-2 in float32, or the random Llama in bfloat16."""
    import gguf
    import torch
    from safetensors.torch import load_file

    config = json.loads((checkpoint / "config.json").read_text())
    kind_of_model = config["model_type"]
    if kind_of_model not in NAMES:
        raise SystemExit(f"no GGUF file is made of a model of type {kind_of_model}: name a file")
    names, vocabulary = NAMES[kind_of_model], config["vocab_size"]
    out = gguf.GGUFWriter(path, kind_of_model)
    if kind_of_model == "gpt2":
        out.add_context_length(config["n_positions"])
        out.add_embedding_length(config["n_embd"])
        out.add_feed_forward_length(4 * config["n_embd"])
        out.add_block_count(config["n_layer"])
        out.add_head_count(config["n_head"])
        out.add_layer_norm_eps(config["layer_norm_epsilon"])
    else:
        out.add_context_length(config["max_position_embeddings"])
        out.add_embedding_length(config["hidden_size"])
        out.add_feed_forward_length(config["intermediate_size"])
        out.add_block_count(config["num_hidden_layers"])
        out.add_head_count(config["num_attention_heads"])
        out.add_head_count_kv(config["num_key_value_heads"])
        out.add_rope_dimension_count(config["head_dim"])
        out.add_rope_freq_base(config["rope_theta"])
        out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_vocab_size(vocabulary)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    tokens, merges = words(vocabulary)
    out.add_token_list(tokens)
    out.add_token_types([1] * vocabulary)
    out.add_token_merges(merges)
    out.add_bos_token_id(vocabulary - 1)
    out.add_eos_token_id(vocabulary - 1)
    for key, value in load_file(checkpoint / "model.safetensors").items():
        module, kind = key.removeprefix("transformer.").removeprefix("model.").rsplit(".", 1)
        block = ""
        if module.startswith(("h.", "layers.")):
            _, number, module = module.split(".", 2)
            block = f"blk.{number}."
        if module not in names:
            continue
        # transformers' Conv1D has its matrices the other way round; llama.cpp turns neighbours, not halves, of a head.
        if module.split(".")[-1].startswith("c_") and value.ndim == 2:
            value = value.T
        if heads := {"self_attn.q_proj": "num_attention_heads", "self_attn.k_proj": "num_key_value_heads"}.get(module):
            value = value.unflatten(0, (config[heads], 2, -1)).transpose(1, 2).flatten(0, 2)
        name, value = f"{block}{names[module]}.{kind}", value.contiguous()
        if kind_of_model == "gpt2" or value.ndim == 1:
            out.add_tensor(name, value.float().numpy())
        else:
            out.add_tensor(name, value.view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
