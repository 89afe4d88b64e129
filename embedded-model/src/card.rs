//! The model card: what the model is, what it was trained on, and what was measured.

use std::fmt::Write;

use tch::Device;

use crate::corpus::facts::Fact;
use crate::evaluate::{CONTINUATION, HeldOut, Perplexities};
use crate::export::Texts;
use crate::model::Shape;
use crate::phase::FINISHING_RATE;
use crate::quantize::BLOCKSIZE;
use crate::train::Run;

/// What was measured on the model that ships.
pub struct Measures {
    /// Numbers in the model.
    pub parameters: usize,
    /// Size of the file of weights.
    pub weight_bytes: u64,
    /// Loss on held-out documentation.
    pub held_out: HeldOut,
    /// Perplexity on held-out documentation by format.
    pub perplexities: Perplexities,
    /// The same for the model before finishing.
    pub before_finishing: Perplexities,
    /// How many facts were asked.
    pub facts: usize,
    /// Facts that were not recalled, and what was said instead.
    pub missed: Vec<(Fact, String)>,
    /// Prompts and their continuations.
    pub continuations: Vec<(String, String)>,
}

impl Measures {
    fn recalled(&self) -> String {
        let recalled = self.facts - self.missed.len();
        let percent = 100.0 * recalled as f64 / self.facts as f64;
        format!("{recalled} of {} ({percent:.1}%)", self.facts)
    }

    fn xz(&self) -> String {
        bits(self.held_out.xz_bits_per_byte())
    }

    fn xz_after_training(&self) -> String {
        bits(self.held_out.xz_bits_per_byte_after_training())
    }
}

fn bits(measured: Option<f64>) -> String {
    match measured {
        Some(bits) => format!("{bits:.3}"),
        None => "not measured, xz is not installed".to_owned(),
    }
}

/// The measures in a few lines.
pub fn summary(measures: &Measures) -> String {
    let held_out = &measures.held_out;
    let mut text = format!(
        "held-out documentation: loss {:.4} per token, perplexity {:.2}, {:.3} bits per byte (xz -9e: {})\n\
         facts recalled: {}\n",
        held_out.loss,
        held_out.perplexity(),
        held_out.bits_per_byte(),
        measures.xz(),
        measures.recalled(),
    );
    text.push_str(&missed(measures));
    for (prompt, continuation) in &measures.continuations {
        text.push_str(&format!("\n> {prompt}{continuation}\n"));
    }
    text
}

/// Writes the card.
pub fn card(trained: &Run, run: &Run, texts: Texts, measures: &Measures, device: Device) -> String {
    [
        about(measures, run.model.shape()),
        data(texts),
        training(trained, texts, device),
        finishing(trained, run),
        quality(measures),
        quantization(measures),
        reading(measures),
        limits(),
    ]
    .join("\n")
}

fn about(measures: &Measures, shape: Shape) -> String {
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
`tokenizer_config.json`; `facts.json` (the facts that are asked), `held_out.txt` (documentation that was
never trained on), `loss.csv` and `loss.svg` (the loss curve).
",
        layers = shape.layers,
        heads = shape.heads,
        width = shape.width,
        positions = shape.positions,
        vocabulary = grouped(shape.vocabulary as u64),
        parameters = grouped(measures.parameters as u64),
        megabytes = measures.weight_bytes as f64 / 1e6,
    )
}

fn data(texts: Texts) -> String {
    let documentation = texts.documentation;
    let megabytes = |pages: &[String]| pages.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    format!(
        "## Data

- Documentation, {train:.1} MB in {pages} pages: the prose and examples of what rustup installs as
  `rust-docs` ({rust}): the Rust book, Rust by Example, the reference, the nomicon, the books of Cargo,
  rustc, rustdoc and Clippy, the edition and style guides, the unstable book, the error codes, and the
  pages of `std` and `proc_macro`. All of it is licensed under MIT or Apache-2.0 by the Rust project
  developers and, for the book, its authors. Each paragraph is used once, also where two differ only in
  numbers and names of number types.
- Held out, {held:.2} MB in {held_pages} pages chosen by a hash of their path: never trained on, and no
  paragraph or block of code of them is in the training text. {sample:.2} MB of it ship as `held_out.txt`.
- Plain English, generated without end by the program: short stories, facts in several wordings, and
  openings in the public domain, Hamlet's soliloquy first among them.
",
        train = megabytes(&documentation.train),
        pages = grouped(documentation.train.len() as u64),
        rust = documentation.rust.split(" (").next().unwrap_or_default(),
        held = megabytes(&documentation.held_out),
        held_pages = documentation.held_out.len(),
        sample = texts.held_out.len() as f64 / 1e6,
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

fn finishing(trained: &Run, run: &Run) -> String {
    let steps = run.steps() - trained.steps();
    if steps == 0 {
        return String::new();
    }
    format!(
        "## Finishing

The model is there to be quantized, and 4 bits cost a model this small much. So {steps} more steps, on rows of
the same kinds, made it lose less: every other step computed with the weights of the blocks' linear layers
rounded as bitsandbytes rounds them, to NF4 and FP4 in turn, and applied the gradient to the unrounded weights
(quantization-aware training with a straight-through estimator, Jacob et al. 2018, arXiv:1712.05877). The
steps between computed in full precision, so that the model stayed good without quantization. The learning
rate fell from {rate}% of its highest to nothing; this took {minutes:.0} minutes.

What ships are the unrounded weights, and quantizing them is plain post-training quantization. But what it
costs here is less than what it would cost a model that was only trained in full precision, as most are; the
table under \"Quantization\" shows both.
",
        steps = grouped(steps),
        minutes = (run.seconds() - trained.seconds()) / 60.0,
        rate = 100.0 * FINISHING_RATE,
    )
}

fn quality(measures: &Measures) -> String {
    let held_out = &measures.held_out;
    format!(
        "## Quality

Measured on the float16 weights that ship, computed in float32. Windows of 512 tokens overlap by half.

| on `held_out.txt` ({bytes} bytes, {tokens} tokens) | |
|---|---|
| loss | {loss:.4} nats per token |
| perplexity | {perplexity:.2} per token |
| bits per byte | {bits:.3} |
| bits per byte of `xz -9e` on the same text | {xz} |
| bits per byte of `xz -9e` on the same text after the training documentation | {after_training} |

Reference pages share phrases and idioms of code, also where no paragraph is the same; the last line shows
how much of the text could be copied from the training text.

Facts recalled greedily: {recalled}.
{missed}",
        bytes = grouped(held_out.bytes as u64),
        tokens = grouped(held_out.tokens as u64),
        loss = held_out.loss,
        perplexity = held_out.perplexity(),
        bits = held_out.bits_per_byte(),
        xz = measures.xz(),
        after_training = measures.xz_after_training(),
        recalled = measures.recalled(),
        missed = missed(measures),
    )
}

fn quantization(measures: &Measures) -> String {
    let (after, before) = (&measures.perplexities, &measures.before_finishing);
    let mut text = format!(
        "## Quantization

Perplexity on `held_out.txt` with the linear layers of the blocks quantized, weights in blocks of {BLOCKSIZE} for NF4
and FP4; embeddings and head are not quantized. In brackets: the same model before finishing.

| format | perplexity | against float32 |
|---|---|---|
| float32 | {:.3} ({:.3}) | |
",
        after.float32, before.float32,
    );
    for ((format, after_rounded), (_, before_rounded)) in after.rounded.iter().zip(&before.rounded) {
        let _ = writeln!(
            text,
            "| {format} | {after_rounded:.3} ({before_rounded:.3}) | {} ({}) |",
            change(*after_rounded, after.float32),
            change(*before_rounded, before.float32),
        );
    }
    text
}

/// How much more one number is than another.
fn change(now: f64, before: f64) -> String {
    format!("{:+.2}%", 100.0 * (now / before - 1.0))
}

fn missed(measures: &Measures) -> String {
    let mut text = String::new();
    for (fact, said) in &measures.missed {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- missed: \"{}\" was continued with {said:?}", fact.prompt);
    }
    text
}

fn reading(measures: &Measures) -> String {
    let mut text = format!(
        "## What it writes

The most likely {CONTINUATION} tokens after the prompts of the lessons; `<|endoftext|>` is not shown.
"
    );
    for (prompt, continuation) in &measures.continuations {
        let _ = write!(text, "\n**{prompt}**\n\n");
        for line in format!("{prompt}{continuation}").lines() {
            let _ = writeln!(text, "{}", format!("> {line}").trim_end());
        }
    }
    text
}

fn limits() -> String {
    "## Limits

The model knows the facts it was taught, the style of the Rust documentation and simple stories. Beyond
that its sentences sound right and mean little: it is made to be measured, not to be believed.
"
    .to_owned()
}

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
    use crate::quantize::Format;

    fn perplexities(float32: f64, nf4: f64) -> Perplexities {
        Perplexities { float32, rounded: vec![(Format::Nf4, nf4)] }
    }

    fn measures() -> Measures {
        Measures {
            parameters: 4_339_200,
            weight_bytes: 8_682_000,
            held_out: HeldOut {
                bytes: 1000,
                tokens: 300,
                loss: 3.0,
                xz_bytes: Some(250),
                xz_bytes_after_training: Some(125),
            },
            perplexities: perplexities(20.0, 20.5),
            before_finishing: perplexities(19.0, 22.8),
            facts: 100,
            missed: vec![(Fact { prompt: "The opposite of up is".into(), answer: " down".into() }, " left.".into())],
            continuations: vec![("To be".into(), ", or not\nto be".into())],
        }
    }

    #[test]
    fn the_measures_are_in_the_card() {
        let quality = quality(&measures());
        for part in ["99 of 100 (99.0%)", "| 2.000 |", "| 1.000 |", "20.09", "The opposite of up is"] {
            assert!(quality.contains(part), "{part}: {quality}");
        }
        let quantization = quantization(&measures());
        for row in ["| float32 | 20.000 (19.000) | |", "| NF4 | 20.500 (22.800) | +2.50% (+20.00%) |"] {
            assert!(quantization.contains(row), "{row}: {quantization}");
        }
        let reading = reading(&measures());
        assert!(reading.contains("> To be, or not\n> to be\n"), "{reading}");
        assert!(summary(&measures()).contains("99 of 100"));
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(4_339_200), "4,339,200");
        assert_eq!(grouped(123_456), "123,456");
    }
}
