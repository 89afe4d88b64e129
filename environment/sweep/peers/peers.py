"""Measures another program as the benchmark `inference` measures this library: peers.py PROGRAM --precision LIST ...

Prints a JSON object a line, as the benchmark does. What is timed is what a user of the program calls, greedy, with prompts of
random tokens: a prompt with the first new token (prefill), and from the first new token to the 64th (decode).
"""

import argparse
import json
import os
import random
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

# As many as the benchmark decodes; the first belongs to the prefill.
NEW_TOKENS = 64
# Whoever takes longer for so short a prompt, mostly for want of instructions for its format, would take hours.
SHORT_PROMPT, WITHIN_S = 16, 2


def numbers(text):
    return [int(number) for number in text.split(",")]


def arguments():
    """Those of the benchmark, of which some say nothing to other programs."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("program")
    parser.add_argument("--model", required=True)
    parser.add_argument("--files", type=Path, required=True, help="where models are kept in the files that programs read")
    parser.add_argument("--smollm2", type=Path, help="where set-up has that model")
    parser.add_argument("--precision", required=True)
    parser.add_argument("--batch", type=numbers, default=[1, 8])
    parser.add_argument("--prompt", type=numbers, default=[128])
    parser.add_argument("--context", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--processors", type=int, help="as many as this machine may use at once")
    parser.add_argument("--engine")
    parser.add_argument("--cache")
    options = parser.parse_args()
    own = int(os.environ.get("RAYON_NUM_THREADS") or 0)
    options.threads = options.threads or own or min(cores(), options.processors or cores())
    options.longest = max(*options.prompt, options.context) + NEW_TOKENS
    return options


def cores():
    """Physical ones, of those that this process may use."""
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    try:
        return len({Path(siblings.format(cpu)).read_text() for cpu in os.sched_getaffinity(0)})
    except OSError:
        return len(os.sched_getaffinity(0))


class Runs:
    """Those of one format at one batch."""

    def __init__(self, engine, batch, options):
        self.engine, self.batch, self.options = engine, batch, options
        self.prefill_s, self.decode_tok_s = {prompt: [] for prompt in options.prompt}, []

    def run(self):
        first, last = self.time(self.options.context, NEW_TOKENS)
        self.decode_tok_s.append(self.batch * (NEW_TOKENS - 1) / (last - first))
        for prompt, seconds in self.prefill_s.items():
            seconds.append(self.time(prompt, 1)[0])

    def time(self, prompt, new_tokens):
        tokens = random.Random(0)
        prompts = [[tokens.randrange(self.engine.vocabulary) for _ in range(prompt)] for _ in range(self.batch)]
        return self.engine.generate(prompts, new_tokens)


def main():
    options = arguments()
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    from engines import ENGINES

    if options.program not in ENGINES:
        raise SystemExit(f"there is no program {options.program}; there are {', '.join(ENGINES)}")
    kind = ENGINES[options.program]
    formats = options.precision.split(",")
    if unknown := [format for format in formats if format not in kind.formats]:
        raise SystemExit(f"{options.program} is not measured in {', '.join(unknown)}, but in {', '.join(kind.formats)}")
    named = [f"{package} {version(package)}" for package in kind.packages]
    for format in formats:
        engine = kind(options.model, format, options)
        for prompt in (1, SHORT_PROMPT):
            seconds = Runs(engine, 1, options).time(prompt, 1)[0]
        if seconds > WITHIN_S:
            print(f"{options.program} reads {SHORT_PROMPT} tokens in {seconds:.1f} s in {format}, which is left out", file=sys.stderr)
            continue
        batches = [batch for batch in options.batch if batch == 1 or kind.batches]
        # To warm up.
        for batch in batches:
            Runs(engine, batch, options).run()
        all_runs = [Runs(engine, batch, options) for batch in batches]
        for _ in range(options.repeats):
            for runs in all_runs:
                runs.run()
        for runs in all_runs:
            for prompt, seconds in runs.prefill_s.items():
                row = {"program": ", ".join(named), "model": options.model, "engine": options.program, "device": "cpu"}
                row |= {"precision": format, "batch": runs.batch, "prompt": prompt, "context": options.context}
                row |= {"prefill_ms": round(statistics.median(seconds) * 1e3, 4)}
                row |= {"decode_tok_s": round(statistics.median(runs.decode_tok_s), 4), "threads": options.threads}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
