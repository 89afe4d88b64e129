//! Long work ends with an error once the cell is interrupted, and whatever comes after it works.

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use common::tiny;
use quantlab::error::{ErrorKind, Result};
use quantlab::generate::{GenerateOptions, generate, generate_streaming};
use quantlab::interrupt;
use quantlab::measure::{
    Metrics, PerplexityOptions, TimingOptions, compare_quality, items, perplexity, repeat, score_items,
};
use quantlab::model::{
    CacheFormat, Device, Engine, Fold, ImportanceMatrix, LoadOptions, Loaded, calibrate, hessians, load_model,
    load_model_and_tokenizer, trace,
};
use quantlab::quant::{CalibrationMethod, GgufType, Granularity, QuantizationConfig};
use quantlab::serve::{Request, Server, ServerOptions, first_come};

const FLAG: &str = "QUANTLAB_INTERRUPT";

/// As the kernel does it: a process that was told where the flag is.
#[test]
fn every_long_operation_can_be_interrupted_and_then_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let flag = dir.path().join("interrupt");
    std::fs::write(&flag, [0]).unwrap();
    let mut cell = Command::new(std::env::current_exe().unwrap());
    cell.args(["--ignored", "--exact", "in_a_cell", "--nocapture"]).env(FLAG, flag);
    let done = cell.output().unwrap();
    let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(done.status.success() && said.contains("all were interrupted"), "{said}");
}

#[test]
fn nothing_is_interrupted_where_nobody_could() {
    if std::env::var_os(FLAG).is_none() {
        interrupt::check().unwrap();
    }
}

/// What the test above starts.
#[test]
#[ignore = "only does something for the other test"]
fn in_a_cell() {
    let Some(flag) = std::env::var_os(FLAG).map(PathBuf::from) else { return };
    // In place, as the kernel's supervisor writes it: a new file would not be the one that is mapped.
    let set = |value: u8| std::os::unix::fs::FileExt::write_all_at(&open(&flag), &[value], 0).unwrap();
    let loaded = common::load(tiny(), "float32");
    let engine = |engine| load_model(&[tiny_id()], &LoadOptions { engine: Some(engine), ..LoadOptions::default() });
    let others = [Engine::Candle, Engine::Tch].map(|of| engine(of).unwrap());
    let llama = common::load(&common::golden().join("llama-tiny"), "float32");
    let folder = tempfile::tempdir().unwrap();
    let options = GenerateOptions { max_new_tokens: 4, stop_at_eos: false, ..GenerateOptions::default() };
    let timing = TimingOptions { max_new_tokens: 2, ..TimingOptions::default() };
    let text = "once upon a time there was a fox";
    let continued = |loaded: &Loaded| generate(loaded, text, &options).map(drop);
    let quantized = |quantization| {
        load_model(&[tiny_id()], &LoadOptions { quantization: Some(quantization), ..LoadOptions::default() }).map(drop)
    };
    let short = items().unwrap().split_off(358);
    let of_layers = hessians(&loaded, &[text]).unwrap();
    let work: [(&str, &dyn Fn() -> Result<()>); 21] = [
        ("a loop of one's own", &interrupt::check),
        ("generating", &|| continued(&loaded)),
        ("generating on candle", &|| continued(&others[0])),
        ("generating on tch", &|| continued(&others[1])),
        ("timing", &|| loaded.time(text, &timing).map(drop)),
        ("repeats", &|| repeat(3, || Ok(Metrics::default())).map(drop)),
        ("perplexity", &|| perplexity(&loaded, &[text], &PerplexityOptions::default()).map(drop)),
        ("comparing", &|| compare_quality(&loaded, &others[1], &[text]).map(drop)),
        ("scoring items", &|| score_items(&loaded, &short).map(drop)),
        ("calibrating", &|| calibrate(&loaded, &[text], CalibrationMethod::AbsMax, Granularity::PerTensor).map(drop)),
        ("finding Hessians", &|| hessians(&loaded, &[text]).map(drop)),
        ("finding scales for SmoothQuant", &|| Fold::smooth_quant(&loaded, &[text], 0.5).map(drop)),
        ("finding scales for AWQ", &|| Fold::awq(&loaded, &[text], 32).map(drop)),
        ("tracing", &|| trace(&loaded, &[1, 2]).map(drop)),
        ("copying weights", &|| loaded.plain_weights().map(drop)),
        ("loading and quantizing", &|| quantized(QuantizationConfig::nf4())),
        ("loading and quantizing by GPTQ", &|| quantized(QuantizationConfig::gptq(of_layers.clone(), 32))),
        ("loading a second candidate", &|| {
            load_model_and_tokenizer(&["random:gpt2", "embedded"], "float32", Device::Cpu).map(drop)
        }),
        ("saving", &|| loaded.save_pretrained(folder.path().join("saved"))),
        ("saving as GGUF", &|| llama.save_gguf(folder.path().join("saved.gguf"), GgufType::Q8_0, None)),
        ("collecting importance", &|| ImportanceMatrix::collect(&loaded, &[text]).map(drop)),
    ];
    for (what, work) in work {
        set(1);
        let error = work().expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{what}: {error}");
        assert!(error.to_string().contains("interrupted; hint: "), "{what}: {error}");
        set(0);
        // A model of GPT-2's size takes long to make.
        if what != "loading a second candidate" {
            work().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
    // In the middle of the work, too: here before the fourth token.
    let mut tokens = 0;
    let error =
        generate_streaming(&loaded, &[text], &GenerateOptions { max_new_tokens: 20, ..options.clone() }, |_, _| {
            tokens += 1;
            set(u8::from(tokens == 3));
        });
    assert_eq!((error.unwrap_err().kind(), tokens), (ErrorKind::Interrupted, 3));
    set(0);
    // A server goes on with the same tokens, wherever in a step it was interrupted.
    let embedded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
    let served = |interruptions: u64| {
        let cache_format = Some(CacheFormat::Int8);
        let options = ServerOptions { cache_format, max_tokens_per_step: 130, ..ServerOptions::default() };
        let mut server = Server::new(&*embedded.model, &options).unwrap();
        let options = GenerateOptions { max_new_tokens: 20, stop_at_eos: false, ..GenerateOptions::default() };
        for prompt in [(0..270).chain(0..150).collect(), (0..260).rev().collect()] {
            server.submit(Request { prompt, options: options.clone() }).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for moment in 0..interruptions {
                    std::thread::sleep(Duration::from_micros(moment * 777 % 6_000));
                    set(1);
                    std::thread::sleep(Duration::from_micros(200));
                    set(0);
                }
            });
            while server.is_busy() {
                if let Err(error) = server.step(&mut first_come) {
                    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
                }
            }
        });
        server.into_report().requests.into_iter().map(|request| request.tokens).collect::<Vec<_>>()
    };
    assert_eq!(served(40), served(0));
    println!("all were interrupted");
}

fn open(path: &std::path::Path) -> std::fs::File {
    std::fs::File::options().write(true).open(path).unwrap()
}

fn tiny_id() -> &'static str {
    Box::leak(tiny().display().to_string().into_boxed_str())
}
