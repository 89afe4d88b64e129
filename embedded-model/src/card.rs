//! The model card: what the model is, what it was trained on, and what was measured.

use std::f64::consts::LN_2;

use tch::Device;

use crate::corpus::docs::Documentation;
use crate::corpus::facts::Fact;
use crate::evaluate::{self, CONTINUATION};
use crate::phase::FINISHING_RATE;
use crate::quantize::{BLOCKSIZE, Format};
use crate::train::Run;

/// The first heading of the part that says what was measured.
pub const MEASURED: &str = "## Finishing";

/// The texts that a model was trained and is measured on.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    /// The documentation.
    pub documentation: &'a Documentation,
    /// The part of the held-out pages that ships.
    pub held_out: &'a str,
}

/// What was measured on the files that ship.
pub struct Measures {
    /// Bytes of the held-out text.
    pub bytes: usize,
    /// Tokens of the held-out text.
    pub tokens: usize,
    /// How many facts were asked.
    pub facts: usize,
    /// Steps that all but the trained model took beyond it.
    pub finish_steps: u64,
    /// The trained model first.
    pub models: Vec<Quality>,
    /// Prompts and how the trained model continues them.
    pub continuations: Vec<(String, String)>,
}

/// What was measured on one file of weights.
pub struct Quality {
    /// What the library calls the model.
    pub id: &'static str,
    /// Mean loss on the held-out text, in nats per token.
    pub loss: f64,
    /// Perplexity on the held-out text rounded to each of [`Format::ALL`].
    pub rounded: Vec<f64>,
    /// Facts that were not recalled, and what was said instead.
    pub missed: Vec<(Fact, String)>,
}

/// The part of the card that says how the trained model was made.
pub fn made(trained: &Run, texts: Texts, device: Device) -> String {
    [about(trained), data(texts), training(trained, texts, device)].join("\n")
}

/// The rest of the card.
pub fn measured(measures: &Measures) -> String {
    [finishing(measures.finish_steps), quality(measures), quantization(measures), reading(measures), LIMITS.to_owned()]
        .join("\n")
}

fn about(run: &Run) -> String {
    let (shape, parameters) = (run.model.shape(), run.model.size());
    format!(
        "# The embedded model

A small GPT-2 for lessons that must run anywhere, at once and without a network. It was trained by the
program `train-embedded` of this repository; `cargo lab exec cargo run -p quantlab-embedded-model` makes it
anew.

| | |
|---|---|
| architecture | GPT-2: {layers} layers, {heads} heads, width {width}, {positions} positions, tied head |
| parameters | {parameters} |
| weights | float16 safetensors, {megabytes:.1} MB, names and layouts of Hugging Face |
| vocabulary | {vocabulary} tokens, byte-level BPE |
| license | MIT or Apache-2.0 |

Files: `config.json`, `generation_config.json`, `model.safetensors`, `tokenizer.json`,
`tokenizer_config.json`; `model-qat.safetensors` and `model-control.safetensors` (the same model after some more
steps, see Finishing); `facts.json` (the facts that are asked), `held_out.txt` (documentation that was never trained
on), `items.json` (multiple-choice items of the course), `loss.csv` and `loss.svg` (the loss curve).
",
        layers = shape.layers,
        heads = shape.heads,
        width = shape.width,
        positions = shape.positions,
        vocabulary = grouped(shape.vocabulary as u64),
        megabytes = 2.0 * parameters as f64 / 1e6,
        parameters = grouped(parameters as u64),
    )
}

fn data(texts: Texts) -> String {
    let documentation = texts.documentation;
    let megabytes = |pages: &[String]| pages.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    let xz = evaluate::xz_bits_per_byte(texts.held_out, &documentation.train.join("\n\n")).map(|[alone, after]| {
        format!(
            "
  `xz -9e` needs {alone:.3} bits for each byte of that, and {after:.3} once it has seen the training documentation:
  reference pages share phrases and idioms of code, also where no paragraph is the same."
        )
    });
    format!(
        "## Data

- Documentation, {train:.1} MB in {pages} pages: the prose and examples of what rustup installs as
  `rust-docs` ({rust}): the Rust book, Rust by Example, the reference, the nomicon, the books of Cargo,
  rustc, rustdoc and Clippy, the edition and style guides, the unstable book, the error codes, and the
  pages of `std` and `proc_macro`. All of it is licensed under MIT or Apache-2.0 by the Rust project
  developers and, for the book, its authors. Each paragraph is used once, also where two differ only in
  numbers and names of number types.
- Held out, {held:.2} MB in {held_pages} pages chosen by a hash of their path: never trained on, and no
  paragraph or block of code of them is in the training text. {sample:.2} MB of it ship as `held_out.txt`.{xz}
- Plain English, generated without end by the program: short stories, facts in several wordings, and
  openings in the public domain, Hamlet's soliloquy first among them.
",
        train = megabytes(&documentation.train),
        pages = grouped(documentation.train.len() as u64),
        rust = documentation.rust.split(" (").next().unwrap_or_default(),
        held = megabytes(&documentation.held_out),
        held_pages = documentation.held_out.len(),
        sample = texts.held_out.len() as f64 / 1e6,
        xz = xz.unwrap_or_default(),
    )
}

fn training(run: &Run, texts: Texts, device: Device) -> String {
    let last = run.history.points.last();
    let pages: usize = texts.documentation.train.iter().map(String::len).sum();
    let machine = match (device.is_cuda(), tch::get_num_threads()) {
        (true, _) => "a GPU".to_owned(),
        (false, 1) => format!("one core of a CPU ({})", std::env::consts::ARCH),
        (false, threads) => format!("{threads} cores of a CPU ({})", std::env::consts::ARCH),
    };
    format!(
        "## Training

{tokens} tokens in {steps} steps took {minutes:.0} minutes on {machine}. {share}% of the rows were
documentation ({pages:.1} MB), the others generated English. Muon moved the matrices of the blocks, AdamW
everything else; the learning rate rose, stayed, and fell to nearly nothing in a straight line.

The held-out curve was measured on the way on the first windows of `held_out.txt`, which do not overlap;
the measures below are of the whole file.

![Training and held-out loss against tokens](loss.svg)
",
        // The curve's last point lies a few steps before the end.
        tokens = grouped(last.map_or(0, |point| point.tokens / point.step.max(1) * run.steps())),
        steps = grouped(run.steps()),
        minutes = run.seconds() / 60.0,
        share = crate::batches::DOCUMENTATION_SHARE,
        pages = pages as f64 / 1e6,
    )
}

fn finishing(steps: u64) -> String {
    format!(
        "{MEASURED}

Two more files of weights are for the experiments of lessons 4 and 6 on what quantization-aware training buys. Both
start from `model.safetensors` and take {steps} more steps, on the same rows, at a learning rate that falls from {rate}%
of the highest to nothing:

- `model-qat.safetensors`, the library's `embedded:qat`: every other step computes with the weights of the blocks'
  linear layers rounded as bitsandbytes rounds them, to NF4 and FP4 in turn, and applies the gradient to the unrounded
  weights (with a straight-through estimator, Jacob et al. 2018, arXiv:1712.05877). The steps between compute in full
  precision, so that the model stays good without quantization.
- `model-control.safetensors`, `embedded:control`: no step rounds anything. What it gains over `embedded`, the steps
  alone have done.

All files hold unrounded weights, and quantizing them is plain post-training quantization.
",
        steps = grouped(steps),
        rate = 100.0 * FINISHING_RATE,
    )
}

fn quality(measures: &Measures) -> String {
    let &Measures { bytes, tokens, facts, ref models, .. } = measures;
    let mut text = format!(
        "## Quality

Measured on the float16 weights that ship, computed in float32, by
`cargo lab exec cargo run -p quantlab-embedded-model -- card`. The text is `held_out.txt` ({} bytes, {} tokens)
in windows of 512 tokens that overlap by half; facts are recalled greedily.

{}{}{}{}{}",
        grouped(bytes as u64),
        grouped(tokens as u64),
        header("measure", models),
        row("loss in nats per token", models, |model| format!("{:.4}", model.loss)),
        row("perplexity per token", models, |model| format!("{:.2}", model.loss.exp())),
        row("bits per byte", models, |model| format!("{:.3}", model.loss * tokens as f64 / bytes as f64 / LN_2)),
        row(&format!("facts recalled, of {facts}"), models, |model| {
            let recalled = facts - model.missed.len();
            format!("{recalled} ({:.1}%)", 100.0 * recalled as f64 / facts as f64)
        }),
    );
    for model in models.iter().filter(|model| !model.missed.is_empty()) {
        text += &format!("\nMissed by `{}`:\n\n", model.id);
        for (fact, said) in &model.missed {
            text += &format!("- \"{}\" was continued with {said:?}\n", fact.prompt);
        }
    }
    text
}

fn quantization(measures: &Measures) -> String {
    let models = &measures.models;
    let mut text = format!(
        "## Quantization

Perplexity on `held_out.txt` with the linear layers of the blocks quantized, weights in blocks of {BLOCKSIZE} for NF4
and FP4; embeddings and head are not quantized. In brackets: against the same weights in float32.

{}{}",
        header("format", models),
        row("float32", models, |model| format!("{:.3}", model.loss.exp())),
    );
    for (index, format) in Format::ALL.into_iter().enumerate() {
        text += &row(&format.to_string(), models, |model| {
            let perplexity = model.rounded[index];
            format!("{perplexity:.3} ({:+.2}%)", 100.0 * (perplexity / model.loss.exp() - 1.0))
        });
    }
    text
}

/// The head of a table with a column for each model.
fn header(corner: &str, models: &[Quality]) -> String {
    row(corner, models, |model| format!("`{}`", model.id)) + &row("---", models, |_| "---".to_owned())
}

/// A row of a table with a column for each model.
fn row(name: &str, models: &[Quality], cell: impl Fn(&Quality) -> String) -> String {
    let cells: String = models.iter().map(|model| format!(" {} |", cell(model))).collect();
    format!("| {name} |{cells}\n")
}

fn reading(measures: &Measures) -> String {
    let mut text = format!(
        "## What it writes

The most likely {CONTINUATION} tokens of `embedded` after the prompts of the lessons; `<|endoftext|>` is not shown.
"
    );
    for (prompt, continuation) in &measures.continuations {
        text += &format!("\n**{prompt}**\n\n");
        for line in format!("{prompt}{continuation}").lines() {
            text += &format!("{}\n", format!("> {line}").trim_end());
        }
    }
    text
}

const LIMITS: &str = "## Limits

The model knows the facts it was taught, the style of the Rust documentation and simple stories. Beyond
that its sentences sound right and mean little: it is made to be measured, not to be believed.
";

/// Writes a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures() -> Measures {
        let fact = Fact { prompt: "The opposite of up is".into(), answer: " down".into() };
        let quality = |id, perplexity: f64, missed| Quality {
            id,
            loss: perplexity.ln(),
            rounded: [1.5, 1.125, 1.25].map(|factor| factor * perplexity).into(),
            missed,
        };
        Measures {
            bytes: 1000,
            tokens: 500,
            facts: 100,
            finish_steps: 150,
            models: vec![
                quality("embedded", 16.0, vec![]),
                quality("embedded:qat", 64.0, vec![(fact, " left.".into())]),
            ],
            continuations: vec![("To be".into(), ", or not\nto be".into())],
        }
    }

    #[test]
    fn the_measures_are_in_the_card_the_trained_model_first() {
        let card = measured(&measures());
        assert!(card.starts_with(MEASURED), "{card}");
        for part in [
            " take 150 more steps, ",
            "(1,000 bytes, 500 tokens)",
            "| measure | `embedded` | `embedded:qat` |\n| --- | --- | --- |\n",
            "| loss in nats per token | 2.7726 | 4.1589 |\n",
            "| perplexity per token | 16.00 | 64.00 |\n",
            "| bits per byte | 2.000 | 3.000 |\n",
            "| facts recalled, of 100 | 100 (100.0%) | 99 (99.0%) |\n",
            "Missed by `embedded:qat`:\n\n- \"The opposite of up is\" was continued with \" left.\"\n",
            "| float32 | 16.000 | 64.000 |\n| LLM.int8() | 24.000 (+50.00%) | 96.000 (+50.00%) |\n",
            "| NF4 | 18.000 (+12.50%) | 72.000 (+12.50%) |\n| FP4 | 20.000 (+25.00%) |",
            "> To be, or not\n> to be\n",
        ] {
            assert!(card.contains(part), "{part}: {card}");
        }
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(4_339_200), "4,339,200");
        assert_eq!(grouped(123_456), "123,456");
    }
}
