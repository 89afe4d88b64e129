//! transformers and bitsandbytes load what is saved here, and compute the same. Where Python has them: the
//! interpreter is `QUANTLAB_PYTHON`, or else `python3`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use quantlab::model::Precision;
use quantlab::quant::{FourBitOptions, Head, QuantizationConfig};

use super::load_with;
use crate::common::copy::logits;
use crate::common::distance;

/// Prints, for each folder, the logits after the tokens of `crate::common::copy::logits`.
const SCRIPT: &str = r#"
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
for folder in sys.argv[1:]:
    AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", device_map="cpu").eval()
    for module in model.modules():
        # A kernel that multiplies in bfloat16, whatever the compute dtype is.
        module.support_avx512bf16_for_cpu = False
    with torch.inference_mode():
        print(json.dumps(model(torch.tensor([[5, 42, 7, 1, 99]])).logits[0, -1].float().tolist()))
"#;

/// As for the references. bfloat16 is rounded at other places in torch.
const FLOAT32: f32 = 1e-4;
const BFLOAT16: f32 = 0.1;

fn python() -> String {
    std::env::var("QUANTLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn has_transformers() -> bool {
    let import = Command::new(python()).args(["-c", "import torch, transformers, bitsandbytes, accelerate"]).output();
    import.is_ok_and(|output| output.status.success())
}

#[test]
fn transformers_computes_the_same() {
    if !has_transformers() {
        println!("skipped: {} has no torch, transformers, accelerate and bitsandbytes", python());
        return;
    }
    let (nf4, float32) = (QuantizationConfig::nf4, Precision::Float32);
    // On a CPU with AVX-512, bitsandbytes 0.50 takes a wrong scale where a block goes on in the next row and rows are
    // a multiple of 16 long; in llama-tiny's of 160, blocks of 32 do not.
    let no_straddling = || QuantizationConfig::four_bit(FourBitOptions { blocksize: 32, ..FourBitOptions::default() });
    let cases = [
        ("gpt2-tiny", float32, None),
        ("gpt2-tiny", Precision::BFloat16, None),
        ("gpt2-tiny", float32, Some(nf4())),
        (
            "gpt2-tiny",
            float32,
            Some(QuantizationConfig::four_bit(FourBitOptions { double_quant: true, ..FourBitOptions::default() })),
        ),
        ("gpt2-tiny", float32, Some(QuantizationConfig::fp4())),
        ("gpt2-tiny", float32, Some(QuantizationConfig::int8())),
        ("gpt2-tiny", float32, Some(QuantizationConfig { head: Head::AsLayers, ..nf4() })),
        ("gpt2-tiny", float32, Some(QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int8() })),
        ("gpt2-tiny", Precision::BFloat16, Some(nf4())),
        ("llama-tiny", float32, Some(QuantizationConfig::int8())),
        ("llama-tiny", float32, Some(QuantizationConfig { head: Head::AsLayers, ..QuantizationConfig::int8() })),
        ("llama-tiny", float32, Some(QuantizationConfig { head: Head::AsLayers, ..no_straddling() })),
    ];
    let parent = tempfile::tempdir().unwrap();
    let (mut folders, mut expected) = (Vec::new(), Vec::new());
    for (i, (name, precision, config)) in cases.into_iter().enumerate() {
        let loaded = load_with(&Path::new("tests/golden").join(name), precision, config);
        let folder = parent.path().join(i.to_string());
        loaded.save_pretrained(&folder).unwrap();
        folders.push(folder);
        expected.push((format!("{name}, {}", loaded.dtype_label), precision, logits(&loaded)));
    }
    let lines = run(&folders);
    assert_eq!(lines.len(), expected.len());
    for (line, (label, precision, expected)) in lines.iter().zip(expected) {
        let found: Vec<f32> = serde_json::from_str(line).unwrap();
        let distance = distance(&found, &expected);
        println!("{label}: {distance:.1e}");
        assert!(distance < if precision == Precision::Float32 { FLOAT32 } else { BFLOAT16 }, "{label}: {distance}");
    }
}

/// Rather than guess at what it cannot express.
#[test]
fn transformers_refuses_an_int8_head_beside_4_bit_layers() {
    if !has_transformers() {
        println!("skipped: {} has no torch, transformers, accelerate and bitsandbytes", python());
        return;
    }
    let config = QuantizationConfig { head: Head::Int8, ..QuantizationConfig::nf4() };
    let folder = tempfile::tempdir().unwrap();
    load_with(Path::new("tests/golden/gpt2-tiny"), Precision::Float32, Some(config))
        .save_pretrained(folder.path())
        .unwrap();
    let output = python_on(&[folder.path().to_owned()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("lm_head"), "{said}");
}

fn run(folders: &[PathBuf]) -> Vec<String> {
    let output = python_on(folders);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.starts_with('[')).map(str::to_owned).collect()
}

fn python_on(folders: &[PathBuf]) -> std::process::Output {
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(script.path(), SCRIPT).unwrap();
    Command::new(python()).arg(script.path()).args(folders).env("HF_HUB_OFFLINE", "1").output().unwrap()
}
