//! The paired comparison of two models: llama.cpp's figures, from logits that nobody stores.

use std::path::{Path, PathBuf};

use crate::common::copy::{CONFIG, Copy, TOKENIZER, WEIGHTS};
use crate::common::fake::{ending_with, saying, with_tokenizer_of};
use crate::common::{Case, distance, golden, tiny};
use proptest::prelude::*;
use quantlab::measure::{
    GreedyDifference, Percentiles, PerplexityOptions, QualityBase, QualityComparison, RunInfo, Uncertain,
    compare_quality, compare_quality_of_tokens, greedy_differences, noise_floor, perplexity_of_tokens,
};
use quantlab::model::{LoadOptions, Loaded, LogitPositions, Precision, TokenBatch, load_model};
use quantlab::quant::QuantizationConfig;
use quantlab::source::held_out_text;
use serde_json::{Value, json};

/// How far logits may lie from the reference's: both round to float32 at every step.
const LOGITS: f64 = 1e-5;

fn in_format(model_id: &str, precision: Precision, quantization: Option<QuantizationConfig>) -> Loaded {
    load_model(&[model_id], &LoadOptions { precision, quantization, ..LoadOptions::default() }).unwrap()
}

/// The tiny model in full precision and in NF4.
fn pair() -> [Loaded; 2] {
    let tiny = tiny().to_str().unwrap();
    [None, Some(QuantizationConfig::nf4())].map(|config| in_format(tiny, Precision::Float32, config))
}

fn texts(lengths: &[usize]) -> Vec<Vec<u32>> {
    let text = |(text, &len): (usize, &usize)| (0..len).map(|i| ((53 * i + 29 * text + 7) % 384) as u32).collect();
    lengths.iter().enumerate().map(text).collect()
}

fn batches_of(batch_size: usize) -> PerplexityOptions {
    PerplexityOptions { batch_size, ..PerplexityOptions::default() }
}

fn compare(base: &Loaded, other: &Loaded, sequences: &[Vec<u32>]) -> QualityComparison {
    compare_quality_of_tokens(base, other, sequences, &PerplexityOptions::default()).unwrap()
}

/// The figures by the names that they have in the reference; an uncertain one is its value and its error.
fn figures(found: &QualityComparison) -> [(&'static str, Vec<f64>); 11] {
    let pair = |Uncertain { value, standard_error }| vec![value, standard_error];
    [
        ("positions", vec![found.tokens as f64]),
        ("ppl", pair(found.perplexity)),
        ("ppl_base", pair(found.base_perplexity)),
        ("correlation_of_ln_ppl", vec![found.log_perplexity_correlation]),
        ("ln_ppl_ratio", pair(found.log_perplexity_ratio)),
        ("ppl_ratio", pair(found.perplexity_ratio)),
        ("ppl_difference", pair(found.perplexity_difference)),
        ("kld", pair(found.kl_divergence)),
        ("dp", pair(found.probability_change)),
        ("rms_dp", pair(found.rms_probability_change)),
        ("same_top", pair(found.same_top_token)),
    ]
}

/// Every figure of the reference is there, and as near as `tolerance` of its name and itself.
#[track_caller]
fn assert_figures(name: &str, found: &QualityComparison, reference: &Value, tolerance: &dyn Fn(&str, f64) -> f64) {
    let near = |key: &str, found: f64, expected: &Value| {
        let expected = expected.as_f64().unwrap();
        let error = (found - expected).abs();
        assert!(error <= tolerance(key, expected), "{name}, {key}: {found}, {expected} expected, {error:e} apart");
    };
    for (key, found) in figures(found) {
        match &reference[key] {
            Value::Array(pair) => pair.iter().zip(found).for_each(|(expected, found)| near(key, found, expected)),
            expected => near(key, found[0], expected),
        }
    }
    let percentiles = |key: &str, found: &Percentiles| {
        for (percent, expected) in reference[key].as_object().unwrap() {
            near(key, found.at(percent.parse().unwrap()).unwrap(), expected);
        }
        near(key, found.median(), &reference[key]["50"]);
    };
    percentiles("kld_percentiles", &found.kl_percentiles);
    percentiles("dp_percentiles", &found.probability_change_percentiles);
}

/// Each `kld-FORMAT.json` of the reference folder, with `gpt2-tiny` and `gpt2-tiny-bnb-FORMAT`.
#[test]
fn the_figures_are_those_of_llama_cpp() {
    let files = std::fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    let format =
        |file: &Path| Some(file.file_name()?.to_str()?.strip_prefix("kld-")?.strip_suffix(".json")?.to_owned());
    let references: Vec<(PathBuf, String)> = files.filter_map(|file| format(&file).map(|name| (file, name))).collect();
    assert!(!references.is_empty());
    for (file, format) in references {
        let case = |name: &str| Case::read(file.with_file_name(name));
        let (base, other) = (case("gpt2-tiny"), case(&format!("gpt2-tiny-bnb-{format}")));
        let reference: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        // The quantized references come without a tokenizer.
        let of_other = [CONFIG, WEIGHTS].map(|name| other.folder.join(name));
        let copy = Copy::of_files(&[&of_other[..], &[base.folder.join(TOKENIZER)]].concat());
        let (base_model, other_model, rows) = (base.load(), copy.load().unwrap(), base.ids("input_ids"));
        // Of a token of the texts.
        let mut largest_probability = 0.0_f64;
        for (case, model) in [(&base, &base_model), (&other, &other_model)] {
            let logits = model.model.forward(&TokenBatch::new(&rows).unwrap(), None, LogitPositions::All).unwrap();
            let distance = f64::from(distance(logits.values(), &case.values("logits")));
            assert!(distance < LOGITS, "{}: {distance}", case.name);
            for (b, row) in rows.iter().enumerate() {
                let probability = |t: usize| log_softmax(logits.row(b, t - 1))[row[t] as usize].exp();
                largest_probability = (1..row.len()).map(probability).fold(largest_probability, f64::max);
            }
        }
        let found = compare(&base_model, &other_model, &rows);
        let perplexities: f64 = ["ppl", "ppl_base"].iter().map(|key| reference[key][0].as_f64().unwrap()).sum();
        // What logits that are off by `LOGITS` can change, to first order: the nll of each model by twice as much.
        let tolerance = |key: &str, expected: f64| match key {
            "positions" | "same_top" => 1e-12,
            "ppl" | "ppl_base" | "ppl_difference" => 2.0 * LOGITS * perplexities,
            "ln_ppl_ratio" | "ppl_ratio" | "correlation_of_ln_ppl" => 4.0 * LOGITS,
            // Pinsker: sum_i |p_i - q_i| <= sqrt(2 KL).
            "kld" | "kld_percentiles" => 2.0 * LOGITS * (2.0 * expected).sqrt(),
            "dp" | "rms_dp" | "dp_percentiles" => 4.0 * LOGITS * largest_probability,
            other => panic!("{other}"),
        };
        assert_figures(&format, &found, &reference, &tolerance);
    }
}

/// Logits of 384 tokens that look random but are known.
fn known(seed: u32, spread: f32) -> impl Fn(u32, usize) -> Vec<f32> + Send + Sync + Clone + 'static {
    move |token, position| {
        let mixed = |next: u32| {
            let mix = (token * 389 + position as u32 * 31 + next * 7919) ^ (token * next * 13);
            let noise = mix.wrapping_add(seed.wrapping_mul(next + 1)).wrapping_mul(2_654_435_761) >> 16;
            (mix.wrapping_mul(2_246_822_519) >> 16) as f32 / 8192.0 + spread * noise as f32 / 65536.0
        };
        (0..384).map(mixed).collect()
    }
}

fn fake(logits: impl Fn(u32, usize) -> Vec<f32> + Send + Sync + 'static) -> Loaded {
    with_tokenizer_of(crate::common::fake::fake(384, 64, logits), crate::common::load(tiny(), "float32"))
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    logits.iter().map(|&logit| f64::from(logit) - sum.ln()).collect()
}

/// The figures of the reference by their definitions, one text after the other, from sums of squares and products.
fn naive(base: &dyn Fn(u32, usize) -> Vec<f32>, other: &dyn Fn(u32, usize) -> Vec<f32>, texts: &[Vec<u32>]) -> Value {
    let [mut nll_base, mut nll, mut kl, mut dp, mut same] = [const { Vec::new() }; 5];
    for text in texts {
        for (t, pair) in text.windows(2).enumerate() {
            let [p, q] = [base, other].map(|model| log_softmax(&model(pair[0], t)));
            let next = pair[1] as usize;
            nll_base.push(-p[next]);
            nll.push(-q[next]);
            kl.push(p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>());
            dp.push(q[next].exp() - p[next].exp());
            let top = |p: &[f64]| p.iter().position(|x| p.iter().all(|y| x >= y));
            same.push(if top(&p) == top(&q) { 1.0 } else { 0.0 });
        }
    }
    let n = nll.len() as f64;
    let mean = |x: &[f64]| x.iter().sum::<f64>() / n;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).collect::<Vec<f64>>();
    let covariance = |x: &[f64], y: &[f64]| (mean(&product(x, y)) - mean(x) * mean(y)) / (n - 1.0);
    let error = |x: &[f64]| covariance(x, x).sqrt();
    let percentiles = |x: &[f64]| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        let at = |percent: f64| {
            let rank = percent / 100.0 * (n - 1.0);
            let (low, high) = (x[rank as usize], x[(rank as usize + 1).min(x.len() - 1)]);
            json!(low + (high - low) * rank.fract())
        };
        json!({"0": at(0.0), "5": at(5.0), "50": at(50.0), "99.9": at(99.9), "100": at(100.0)})
    };
    let (ppl_base, ppl, ln_ratio) = (mean(&nll_base).exp(), mean(&nll).exp(), mean(&nll) - mean(&nll_base));
    let (error_base, error_other, shared) = (error(&nll_base), error(&nll), covariance(&nll_base, &nll));
    let of_difference =
        |a: f64, b: f64| ((a * error_other).powi(2) + (b * error_base).powi(2) - 2.0 * a * b * shared).sqrt();
    let rms = mean(&product(&dp, &dp)).sqrt();
    json!({
        "positions": n,
        "ppl": [ppl, ppl * error_other],
        "ppl_base": [ppl_base, ppl_base * error_base],
        "correlation_of_ln_ppl": shared / (error_base * error_other),
        "ln_ppl_ratio": [ln_ratio, of_difference(1.0, 1.0)],
        "ppl_ratio": [ln_ratio.exp(), ln_ratio.exp() * of_difference(1.0, 1.0)],
        "ppl_difference": [ppl - ppl_base, of_difference(ppl, ppl_base)],
        "kld": [mean(&kl), error(&kl)],
        "kld_percentiles": percentiles(&kl),
        "dp": [mean(&dp), error(&dp)],
        "dp_percentiles": percentiles(&dp),
        "rms_dp": [rms, 0.5 / rms * error(&product(&dp, &dp))],
        "same_top": [mean(&same), (mean(&same) * (1.0 - mean(&same)) / (n - 1.0)).sqrt()],
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn they_are_what_their_definitions_give(
        seeds in (any::<u32>(), any::<u32>()),
        spread in 0.05..3.0_f32,
        lengths in prop::collection::vec(0..64_usize, 1..9),
        batch_size in 1..9_usize,
    ) {
        let texts = texts(&[&lengths[..], &[20]].concat());
        let (base, other) = (known(seeds.0, spread), known(seeds.1, spread));
        let (base_model, other_model) = (fake(base.clone()), fake(other.clone()));
        let found = compare_quality_of_tokens(&base_model, &other_model, &texts, &batches_of(batch_size)).unwrap();
        let expected = naive(&base, &other, &texts);
        // Percentiles are of float32; a small error from sums of squares has lost half of its digits.
        let tolerance = |key: &str, expected: f64| match key {
            "kld_percentiles" | "dp_percentiles" => 1e-7 * expected.abs() + 1e-12,
            _ => 1e-6 * expected.abs() + 1e-9,
        };
        assert_figures("known logits", &found, &expected, &tolerance);

        // With the models exchanged, what is signed changes its sign.
        let swapped = compare_quality_of_tokens(&other_model, &base_model, &texts, &batches_of(batch_size)).unwrap();
        let ratios = found.perplexity_ratio.value * swapped.perplexity_ratio.value;
        prop_assert!((ratios - 1.0).abs() < 1e-12);
        prop_assert_eq!(swapped.log_perplexity_ratio.value, -found.log_perplexity_ratio.value);
        prop_assert_eq!(swapped.log_perplexity_ratio.standard_error, found.log_perplexity_ratio.standard_error);
        prop_assert_eq!(swapped.probability_change.value, -found.probability_change.value);
        prop_assert_eq!(swapped.rms_probability_change, found.rms_probability_change);
        prop_assert_eq!((swapped.perplexity, swapped.base_perplexity), (found.base_perplexity, found.perplexity));
        prop_assert_eq!((swapped.same_top_token, &swapped.greedy), (found.same_top_token, &found.greedy));
    }
}

#[test]
fn a_model_is_as_good_as_itself() {
    let zero = Uncertain { value: 0.0, standard_error: 0.0 };
    let one = Uncertain { value: 1.0, standard_error: 0.0 };
    for model in pair() {
        let found = compare(&model, &model, &texts(&[40, 170, 2, 0, 1]));
        assert_eq!(found.tokens, 39 + 169 + 1);
        assert_eq!((found.kl_divergence, found.perplexity_ratio, found.same_top_token), (zero, one, one));
        assert_eq!((found.log_perplexity_ratio, found.perplexity_difference), (zero, zero));
        assert_eq!((found.probability_change, found.rms_probability_change), (zero, zero));
        assert_eq!(found.kl_percentiles.at(100.0), Some(0.0));
        assert!((found.log_perplexity_correlation - 1.0).abs() < 1e-12);
        assert!(found.greedy.iter().all(|text| text.first_difference.is_none()));
        assert_eq!(found.base_run, found.run);
    }
}

#[test]
fn both_models_read_the_windows_of_the_perplexity() {
    let [base, other] = pair();
    let texts = texts(&[40, 3, 170, 64, 2, 9, 1, 0, 65]);
    for (window, stride) in [(None, None), (Some(32), Some(8))] {
        let all = [1, 2, 7, 64].map(|batch_size| {
            let options = PerplexityOptions { window, stride, batch_size };
            let found = compare_quality_of_tokens(&base, &other, &texts, &options).unwrap();
            for (model, perplexity) in [(&base, found.base_perplexity), (&other, found.perplexity)] {
                let expected = perplexity_of_tokens(model, &texts, &options).unwrap();
                // Exponentials of float32 there, of double precision here.
                assert!((perplexity.value / expected.perplexity - 1.0).abs() < 1e-6, "{perplexity:?}, {expected}");
                assert_eq!(found.tokens, expected.tokens);
            }
            // Other tests take threads away.
            let run = RunInfo { threads_granted: found.run.threads, ..found.run };
            QualityComparison { base_run: run.clone(), run, ..found }
        });
        // A row of a batch is the same to the bit, whatever its neighbours, and so is what is made of it.
        assert!(all.iter().all(|found| *found == all[0]));
    }
}

#[test]
fn a_base_that_is_computed_once_finds_the_same() {
    let full = in_format("embedded", Precision::Float32, None);
    let texts = [&held_out_text()[..900], "The end.", &held_out_text()[2000..2500]];
    let base = QualityBase::new(&full, &texts);
    let with_texts = QualityBase::new(&full, &texts).with_greedy_texts();
    // Other tests compute meanwhile, so the threads that each was granted differ.
    let run = |run: RunInfo| RunInfo { threads_granted: 1, ..run };
    let figures = |found: QualityComparison| QualityComparison {
        greedy: Vec::new(),
        base_run: run(found.base_run.clone()),
        run: run(found.run.clone()),
        ..found
    };
    for config in [QuantizationConfig::nf4(), QuantizationConfig::int8()] {
        let other = in_format("embedded", Precision::Float32, Some(config));
        let found = compare_quality(&full, &other, &texts).unwrap();
        assert!(!found.greedy.is_empty());
        assert_eq!(with_texts.compare(&other).unwrap().greedy, found.greedy);
        assert_eq!(figures(base.compare(&other).unwrap()), figures(found));
    }
    assert_eq!(figures(base.noise_floor().unwrap()), figures(noise_floor(&full, &texts).unwrap()));
}

#[test]
fn kl_divergences_are_subtracted_position_by_position() {
    let full = in_format("embedded", Precision::Float32, None);
    let base = QualityBase::new(&full, &[&held_out_text()[..900]]);
    let of = |config| base.compare(&in_format("embedded", Precision::Float32, Some(config))).unwrap();
    let (nf4, fp4) = (of(QuantizationConfig::nf4()), of(QuantizationConfig::fp4()));
    let above = fp4.kl_divergence_above(&nf4).unwrap();
    let [a, b] = [fp4.kl_divergence, nf4.kl_divergence];
    assert!((above.value - (a.value - b.value)).abs() < 1e-6, "{above} {a} {b}");
    assert!(above.standard_error < a.standard_error.hypot(b.standard_error), "what both find difficult cancels");
    let shorter = QualityBase::new(&full, &["The end of it."]).compare(&full).unwrap();
    assert_eq!(nf4.kl_divergence_above(&shorter), None);
}

/// What perplexity cannot tell from chance.
#[test]
fn the_divergence_ranks_formats_by_their_bits() {
    let text = &held_out_text()[..4000];
    let base = in_format("embedded", Precision::Float32, None);
    let formats = [
        (Precision::BFloat16, None),
        (Precision::Float32, Some(QuantizationConfig::int8())),
        (Precision::Float32, Some(QuantizationConfig::nf4())),
    ];
    let found = formats
        .map(|(precision, config)| compare_quality(&base, &in_format("embedded", precision, config), &[text]).unwrap());
    let mut last = 0.0;
    for found in &found {
        let Uncertain { value, standard_error } = found.kl_divergence;
        assert!(value - 5.0 * standard_error > last, "{found}");
        last = value + 5.0 * standard_error;
    }
    assert!(found[0].same_top_token.value > found[2].same_top_token.value);
}

#[test]
fn greedy_texts_diverge_where_a_token_differs() {
    let says = |script: Vec<u32>| with_tokenizer_of(saying(script, 10), crate::common::load(tiny(), "float32"));
    let part = |a: &[u32], b: &[u32], texts: &[Vec<u32>]| {
        greedy_differences(&says(a.to_vec()), &says(b.to_vec()), texts, 2).unwrap()
    };
    let difference = |prompt_tokens, tokens_compared, first_difference| GreedyDifference {
        prompt_tokens,
        tokens_compared,
        first_difference,
    };
    // A context of 12 tokens: at most 6 of a prompt, 6 new ones. A script says what follows each position.
    let script = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3];
    let mut other = script;
    other[4] = 7;
    let texts = [vec![], vec![3], vec![3; 3], vec![3; 100]];
    assert_eq!(
        part(&script, &other, &texts),
        [difference(0, 0, None), difference(1, 6, Some(4)), difference(2, 6, Some(3)), difference(6, 6, None),]
    );
    // Token 9 ends a text: both at once, or one before the other.
    other[2] = 9;
    assert_eq!(part(&other, &other, &texts[1..2]), [difference(1, 3, None)]);
    assert_eq!(part(&script, &other, &texts[1..2]), [difference(1, 3, Some(2))]);
    // Another end of text of the other model: the base goes on, the other does not.
    let ends_with_4 = ending_with(saying(script.to_vec(), 10), &[4]);
    let ends_with_4 = with_tokenizer_of(ends_with_4, crate::common::load(tiny(), "float32"));
    let parted = greedy_differences(&says(script.to_vec()), &ends_with_4, &texts[1..2], 1).unwrap();
    assert_eq!(parted, [difference(1, 4, Some(4))]);
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let [base, other] = pair();
    let message = |base: &Loaded, other: &Loaded, texts: &[Vec<u32>], options: &PerplexityOptions| {
        let text = compare_quality_of_tokens(base, other, texts, options).unwrap_err().to_string();
        assert!(text.contains("; hint: "), "{text}");
        text
    };
    let default = PerplexityOptions::default();
    for nothing in [&[][..], &[vec![]], &[vec![5], vec![6]]] {
        assert!(message(&base, &other, nothing, &default).contains("nothing to predict"));
    }
    assert!(message(&base, &other, &[vec![5, 6]], &default).contains("only one token to predict"));
    assert!(message(&base, &other, &texts(&[9]), &batches_of(0)).contains("`batch_size` is 0"));
    assert!(greedy_differences(&base, &other, &texts(&[9]), 0).unwrap_err().to_string().contains("`batch_size` is 0"));
    assert!(compare_quality(&base, &other, &[""; 0]).is_err());

    let small = crate::common::fake::fake(10, 64, |_, _| vec![0.0; 10]);
    let small = with_tokenizer_of(small, crate::common::load(tiny(), "float32"));
    let text = message(&base, &small, &texts(&[9]), &default);
    assert!(text.contains("a vocabulary of 384 tokens and") && text.contains("one of 10"), "{text}");
    let tokenizer = crate::common::load(Path::new("tests/golden/llama3-tiny"), "float32").tokenizer;
    let text = compare_quality(&base, &Loaded { tokenizer, ..other }, &["fox", "the quick brown fox"]).unwrap_err();
    assert!(text.to_string().contains("encode text"), "{text}");

    let broken = |value: f32, next: usize| {
        fake(move |_, _| {
            let mut logits = vec![0.0; 384];
            logits[next] = value;
            logits
        })
    };
    // The texts have token 60; they do not have token 20.
    let (fine, one) = (broken(0.0, 0), texts(&[9]));
    assert!(one[0].contains(&60) && !one[0].contains(&20));
    let of = |base: &Loaded, other: &Loaded| message(base, other, &one, &default);
    let tiny = tiny().display();
    assert!(of(&fine, &broken(f32::NAN, 20)).contains(&format!("the loss of {tiny} in float32")));
    assert!(of(&broken(f32::NAN, 20), &fine).contains("is NaN"));
    let (impossible, impossible_here) = (broken(f32::NEG_INFINITY, 20), broken(f32::NEG_INFINITY, 60));
    assert!(of(&fine, &impossible_here).contains("gives a token of the texts a probability of 0"));
    assert!(of(&impossible_here, &fine).contains("gives a token of the texts a probability of 0"));
    assert!(of(&fine, &impossible).contains("the KL divergence is infinite"));
    // The other way round, it is finite: the base never draws such a token.
    let Uncertain { value, .. } = compare(&impossible, &fine, &one).kl_divergence;
    assert!((value - (384.0_f64 / 383.0).ln()).abs() < 1e-12, "{value}");
}

#[test]
fn a_comparison_shows_and_serialises_itself() {
    let [base, other] = pair();
    let found = compare(&base, &other, &texts(&[40, 30]));
    let table = found.table();
    let text = table.to_text();
    for part in [
        "in nf4, rest float32, against float32",
        "KL divergence, mean",
        "same top token",
        "68 tokens",
        "base: ",
        "other: ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(
        text.contains(&found.kl_divergence.to_string()) && found.to_string().contains("greedy texts that differ: ")
    );
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["kl_divergence"]["value"], found.kl_divergence.value);
    assert_eq!(json["kl_percentiles"]["50"], found.kl_percentiles.median());
    assert_eq!(json["greedy"].as_array().unwrap().len(), 2);
    assert_eq!(json["run"]["dtype"], found.run.dtype);
}
