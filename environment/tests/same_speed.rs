//! What a cell measures is what a binary measures. Alone in this file, so that no other kernel runs meanwhile.
//!
//! Speeds are not for tests, but a ratio can be one, even where other programs take processors and bandwidth
//! by turns: cell and binary take turns every few milliseconds, so that both see the same machine; both on the same
//! processor (on Linux), for what else runs on a host makes one of its processors up to a fifth slower for a while;
//! and what counts is the median of single tokens, most of which nothing interrupts. The weights of both together
//! leave much of a third-level cache free: where they fill it, who gets how much of it is chance. So is where
//! a model lies in memory; both load it again and again.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::run;
use serde_json::Value;

/// What is allowed between cell and binary.
const DIFFERENCE: f64 = 0.03;
/// Kernels that are started, at most.
const ATTEMPTS: usize = 5;
/// Models that a kernel loads, each with a binary of its own beside it.
const MODELS: usize = 5;
/// Decodes of 64 tokens of each side with one model.
const TURNS: usize = 20;

#[test]
fn a_cell_decodes_as_fast_as_a_binary() {
    // A kernel first: it builds the library that cells link, if that is not what the checkout has.
    let first = run(&["1 + 1"], 300);
    assert!(first.succeeded, "{}", first.report);
    let binary = binary();
    let mut ratios = Vec::new();
    for _ in 0..ATTEMPTS {
        for turns in take_turns(&binary).chunks(TURNS) {
            let [cell, binary] = [0, 1].map(|side| median(turns.iter().map(|turn| turn[side]).collect()));
            ratios.push(cell / binary);
        }
        if (median(ratios.clone()) - 1.0).abs() <= DIFFERENCE {
            return;
        }
    }
    panic!(
        "a token in a cell takes {ratios:.3?} times as long as in the binary, {:.3} by the median",
        median(ratios.clone())
    );
}

/// A program that decodes once for each line of its input, and answers with the median time of a token in milliseconds.
const PROGRAM: &str = "use std::io::{stdin, stdout, Write};
use quantlab::prelude::*;
fn main() -> Result<()> {
    assert_eq!(quantlab::measure::BUILD, \"optimised\");
    quantlab::model::set_threads(1)?;
    let loaded = load_model_and_tokenizer(&[\"embedded\"], \"bfloat16\", Device::Cpu)?;
    let prompt = [(1..=16).collect()];
    let options = TimingOptions { max_new_tokens: 64, warmup: 0, repeats: 1, ..TimingOptions::default() };
    for line in stdin().lines() {
        line?;
        let timing = loaded.time(TokenIds(&prompt), &options)?;
        println!(\"{}\", Statistics::of(&timing.token_ms[1..])?.median);
        stdout().flush()?;
    }
    Ok(())
}
";

/// The path of that program, compiled as `rustc` does it unasked, with the library that cells link.
fn binary() -> PathBuf {
    let home = PathBuf::from(std::env::var_os("QUANTLAB_HOME").expect("set by `cargo lab test`"));
    let dir = home.join("tests/binary");
    fs::create_dir_all(&dir).unwrap();
    let (source, binary) = (dir.join("main.rs"), dir.join("main"));
    fs::write(&source, PROGRAM).unwrap();
    // Cells are built in a folder with the machine's name, and procedural macros beside it.
    let warm = home.join("kernels/warm/target");
    let mut folders = fs::read_dir(&warm).unwrap().map(|entry| entry.unwrap().path().join("debug/deps"));
    let file = format!("libquantlab{}", std::env::consts::DLL_SUFFIX);
    let library = folders.find(|deps| deps.join(&file).is_file()).expect("`cargo lab setup` has warmed the kernel");
    let mut rustc = Command::new(env!("CARGO_BIN_EXE_lab"));
    rustc.args(["exec", "rustc", "--edition=2024", "-O", "-C", "prefer-dynamic", "-C", "rpath", "-o"]).arg(&binary);
    for (kind, folder) in
        [("dependency", &library), ("dependency", &warm.join("debug/deps")), ("native", &home.join("shim"))]
    {
        rustc.arg("-L").arg(format!("{kind}={}", folder.display()));
    }
    rustc.arg("--extern").arg(format!("quantlab={}", library.join(&file).display())).arg(&source);
    let built = rustc.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    binary
}

/// The median time of a token of each turn, in milliseconds: in a cell, and in the binary that it starts and
/// takes turns with; `TURNS` for each model.
fn take_turns(binary: &Path) -> Vec<[f64; 2]> {
    let begin = "use quantlab::prelude::*;
        quantlab::model::set_threads(1)?;";
    let measure = format!(
        "use std::io::{{BufRead, BufReader, Write}};
        use std::process::{{Command, Stdio}};
        #[cfg(target_os = \"linux\")]
        {{
            unsafe extern \"C\" {{
                fn sched_getcpu() -> i32;
                fn sched_setaffinity(process: i32, size: usize, processors: *const [u64; 16]) -> i32;
            }}
            // The thread that computes, and the binary that it starts.
            let processor = unsafe {{ sched_getcpu() }} as usize;
            let mut processors = [0; 16];
            processors[processor / 64] |= 1 << (processor % 64);
            assert_eq!(unsafe {{ sched_setaffinity(0, size_of_val(&processors), &processors) }}, 0);
        }}
        let mut models = Vec::new();
        for _ in 0..{MODELS} {{
            // Those before stay, so that each lies elsewhere.
            models.push(load_model_and_tokenizer(&[\"embedded\"], \"bfloat16\", Device::Cpu)?);
            let loaded = models.last().unwrap();
            let mut binary = Command::new({binary:?})
                .stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (mut ask, answers) = (binary.stdin.take().unwrap(), binary.stdout.take().unwrap());
            let mut answers = BufReader::new(answers).lines();
            let prompt = [(1..=16).collect()];
            let options = TimingOptions {{ max_new_tokens: 64, warmup: 0, repeats: 1, ..TimingOptions::default() }};
            for _ in 0..{TURNS} {{
                let timing = loaded.time(TokenIds(&prompt), &options)?;
                writeln!(ask)?;
                println!(\"ms: {{}} {{}}\", Statistics::of(&timing.token_ms[1..])?.median, answers.next().unwrap()?);
            }}
            drop(ask);
            binary.wait()?;
        }}"
    );
    let run = run(&[begin, &measure], 300);
    assert!(run.succeeded, "{}", run.report);
    let notebook: Value = serde_json::from_str(&run.copy).unwrap();
    let outputs = notebook["cells"][1]["outputs"].as_array().unwrap();
    let printed: String = outputs.iter().map(|output| text(&output["text"])).collect();
    let turns: Vec<[f64; 2]> = printed.lines().filter_map(|line| line.strip_prefix("ms: ")).map(numbers).collect();
    assert_eq!(turns.len(), MODELS * TURNS, "{printed}");
    turns
}

/// A notebook's text: one string, or one for each line.
fn text(value: &Value) -> String {
    match value {
        Value::Array(lines) => lines.iter().map(text).collect(),
        _ => value.as_str().unwrap_or_default().to_owned(),
    }
}

fn numbers(line: &str) -> [f64; 2] {
    let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
