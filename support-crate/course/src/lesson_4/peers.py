"""Decode of other packages at GPT-2's size with random weights, on the CPU: a line for each, name TAB tokens per second,
or name TAB why there is none. As the lesson times it: one sequence, and the prompt left out."""
import os, statistics, sys, tempfile, time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
THREADS, PROMPT, NEW, REPEATS = int(sys.argv[1]), 12, 24, 6


def measure(generate):
    """The median, over rounds, of the tokens per second after the first."""
    def seconds(new):
        start = time.perf_counter()
        generate(new)
        return time.perf_counter() - start
    seconds(NEW)
    return statistics.median((NEW - 1) / (seconds(NEW) - seconds(1)) for _ in range(REPEATS))


def row(name, load):
    try:
        print(name, f"{measure(load()):.2f}", sep="\t", flush=True)
    except Exception as error:
        print(name, " ".join(f"{type(error).__name__}: {error}".split())[:160], sep="\t", flush=True)


def model(**options):
    """GPT-2 from the folder, and what generates with it."""
    from transformers import AutoModelForCausalLM
    return generator(AutoModelForCausalLM.from_pretrained(folder(), **options).eval())


def generator(model):
    import torch
    torch.set_num_threads(THREADS)
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = 0, None
    ids = torch.arange(100, 100 + PROMPT)[None]
    def generate(new):
        with torch.inference_mode():
            model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False)
    return generate


def folder(made=[]):
    """A folder with a GPT-2 of random weights, made once."""
    if not made:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel
        torch.manual_seed(0)
        GPT2LMHeadModel(GPT2Config()).save_pretrained(SPACE.name)
        made.append(SPACE.name)
    return made[0]


def bitsandbytes(**options):
    import torch
    from transformers import BitsAndBytesConfig
    return model(quantization_config=BitsAndBytesConfig(**options), device_map="cpu", dtype=torch.float32)


def nf4():
    import torch
    return bitsandbytes(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)


def onnx():
    import onnxruntime
    from optimum.onnxruntime import ORTModelForCausalLM
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = THREADS
    return generator(ORTModelForCausalLM.from_pretrained(folder(), export=True, session_options=session))


def openvino(bits):
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
    config = {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    weights = {"load_in_8bit": False} if bits is None else {"quantization_config": OVWeightQuantizationConfig(bits=bits)}
    return generator(OVModelForCausalLM.from_pretrained(folder(), export=True, ov_config=config, **weights))


with tempfile.TemporaryDirectory() as name:
    SPACE = type("Space", (), {"name": name})
    row("FP32, by transformers", model)
    row("INT8, by bitsandbytes", lambda: bitsandbytes(load_in_8bit=True))
    row("NF4, by bitsandbytes", nf4)
    row("FP32, by ONNX Runtime", onnx)
    row("FP32, by OpenVINO", lambda: openvino(None))
    row("INT8 weights, by OpenVINO", lambda: openvino(8))
