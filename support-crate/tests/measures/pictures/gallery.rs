//! Every kind of picture with realistic numbers and with awkward ones. `QUANTLAB_GALLERY=folder` keeps
//! them as PNG files, to be looked at.

use quantlab::error::Result;
use quantlab::generate::GenerateOptions;
use quantlab::quant::FourBit;
use quantlab::report::{
    BarPlot, Estimate, HeatMap, LinePlot, RugPlot, ServingTimeline, StackedBar, Timeline, TradeOff, roofline,
};
use quantlab::serve::{
    Plan, Request, ServerOptions, ServingReport, View, first_come, poisson_arrivals, simulate, static_batch,
};
use quantlab_course::short_name;

type SavePng = dyn Fn(&std::path::Path) -> Result<()>;

/// A picture as SVG, and how it is written to a PNG file.
pub struct Picture {
    pub name: &'static str,
    pub svg: String,
    pub save_png: Box<SavePng>,
}

macro_rules! pictures {
    ($($name:ident => $plot:expr;)*) => {
        pub fn pictures() -> Result<Vec<Picture>> {
            Ok(vec![$({
                let plot = $plot;
                Picture {
                    name: stringify!($name),
                    svg: plot.to_svg()?,
                    save_png: Box::new(move |path| plot.save_png(path)),
                }
            }),*])
        }
    };
}

pub const NOTE: &str = "embedded | kernels | cpu | float32 | 2 threads | release";
pub const FOUR_BITS: [&str; 4] = ["NF4", "FP4 (bitsandbytes)", "FP4 (E2M1)", "int4"];

/// As lesson 4 calls what it times, with what each reads for a token, takes in MiB, and decodes in tokens/s.
pub const FORMATS: [(&str, f64, f64, f64); 9] = [
    ("FP32 (Baseline CPU)", 471.7, 486.7, 30.73),
    ("INT8 (bitsandbytes)", 229.3, 244.3, 54.98),
    ("NF4 (bitsandbytes, 4-bit)", 193.3, 208.3, 57.46),
    ("FP4 (bitsandbytes, 4-bit)", 193.3, 208.3, 55.88),
    ("BF16", 236.1, 249.6, 46.13),
    ("NF4, head INT8", 83.2, 245.5, 80.39),
    ("FP32 (Baseline CPU), by libtorch", 471.7, 486.7, 8.79),
    ("INT8 (bitsandbytes), by libtorch", 229.0, 244.0, 2.16),
    ("NF4 (bitsandbytes, 4-bit), by libtorch", 193.4, 208.4, 1.53),
];

/// The table of docs/formats.md, as benches/quality.rs draws it: kind, name, KL divergence and half its interval.
pub const KINDS: [(&str, &str, f64, f64); 21] = [
    ("llama.cpp", "Q8_0", 0.0044, 0.0002),
    ("llama.cpp", "Q6_K", 0.0081, 0.0004),
    ("bitsandbytes", "int8", 0.0174, 0.001),
    ("llama.cpp", "Q4_K_M with importance", 0.0306, 0.0018),
    ("int8 with static scales", "SmoothQuant static int8", 0.0382, 0.0043),
    ("llama.cpp", "Q4_K_M", 0.0521, 0.0026),
    ("int4 and int3 in groups", "GPTQ int4-64", 0.1336, 0.007),
    ("int4 and int3 in groups", "AWQ int4-64", 0.1472, 0.007),
    ("int4 and int3 in groups", "HQQ int4-64", 0.2203, 0.009),
    ("bitsandbytes", "nf4", 0.2538, 0.011),
    ("llama.cpp", "Q4_0", 0.2909, 0.012),
    ("int4 and int3 in groups", "int4-64", 0.3133, 0.013),
    ("int4 and int3 in groups", "w4a8-64", 0.3155, 0.013),
    ("int4 and int3 in groups", "clipped int4-64", 0.3471, 0.013),
    ("bitsandbytes", "fp4", 0.4742, 0.016),
    ("int4 and int3 in groups", "GPTQ int3-64", 0.5234, 0.021),
    ("int4 and int3 in groups", "rotated int4-64", 0.5638, 0.021),
    ("int8 with static scales", "static int8", 0.9589, 0.032),
    ("int4 and int3 in groups", "int3-64", 1.2711, 0.039),
    ("int4 and int3 in groups", "clipped int3-64", 1.2785, 0.037),
    ("int4 and int3 in groups", "HQQ int3-64", 2.0651, 0.051),
];

pub fn around(value: f64, percent: f64) -> Estimate {
    Estimate::plus_minus(value, value * percent / 100.0)
}

/// Times with a long tail to one side, as a shared machine has them.
pub fn noisy(middle: f64, count: u32, seed: u32) -> Vec<f64> {
    let noise = |run: u32| f64::from((run.wrapping_mul(2654435761) ^ seed.wrapping_mul(40503)) >> 16 & 1023) / 1023.0;
    (0..count).map(|run| middle * (0.985 + 0.03 * noise(run) + 0.12 * noise(run + 977).powi(9))).collect()
}

pub fn normal_density() -> impl Iterator<Item = (f64, f64)> {
    (0..=80).map(|step| f64::from(step) / 40.0 - 1.0).map(|x| (x, (-0.5 * (x / 0.31).powi(2)).exp() * 1.28))
}

/// Requests of different lengths on a machine that takes 20 ms for a step and 1 ms for each token.
pub fn served(count: usize, rate: f64, scheduler: fn(&View) -> Plan, cache_tokens: usize) -> ServingReport {
    let request = |index: usize| Request {
        prompt: vec![1; 20 + 37 * index % 100],
        options: GenerateOptions { max_new_tokens: 6 + 29 * index % 40, ..GenerateOptions::default() },
    };
    let arrivals = poisson_arrivals(rate, 3, (0..count).map(request)).unwrap();
    let options = ServerOptions { max_running: 4, cache_tokens, ..ServerOptions::default() };
    simulate(&arrivals, &options, scheduler, |work| 0.02 + 0.001 * work.tokens() as f64).unwrap()
}

pictures! {
    line_latency => LinePlot::new("Latency grows with the prompt")
        .x("prompt length", "tokens")
        .y("latency of 50 new tokens", "s")
        .series("with KV cache", [(16, 0.187), (64, 0.193), (128, 0.201), (256, 0.224), (448, 0.263)]
            .map(|(x, y)| (x, around(y, 2.0))))?
        .intervals("95% interval of the median")
        .note(NOTE);
    heat_map_layers => (0..30).try_fold(
        HeatMap::new("What goes into attention: a few channels are large in every layer").x("channel", "").y("layer", ""),
        |map, layer| {
            let value = |channel: usize| {
                let small = noisy(0.4, 1, (layer * 576 + channel) as u32)[0];
                if [37, 210, 418, 419].contains(&channel) { small * 2.0 * (layer + 3) as f64 } else { small }
            };
            map.row(layer.to_string(), (0..576).map(value))
        },
    )?;
    heat_map_small => HeatMap::new("Few rows").row("a", [0.0, 1.0, 2.0])?.row("b", [1000.0, 0.5, 1.0])?;
    line_cache_log => LinePlot::new("What the KV cache saves")
        .x("prompt length", "tokens")
        .y("latency of 50 new tokens", "s")
        .series("with KV cache", [(16, 0.19), (128, 0.21), (256, 0.24), (448, 0.28)].map(|(x, y)| (x, around(y, 3.0))))?
        .series("without", [(16, 1.3), (128, 3.9), (256, 7.4), (448, 13.1)].map(|(x, y)| (x, around(y, 3.0))))?
        .intervals("95% interval of the median")
        .log_x()
        .log_y()
        .note(NOTE);
    line_batches => LinePlot::new("Throughput by batch size")
        .x("batch size", "prompts")
        .y("throughput", "tokens/s")
        .series("float32", [(1, 212.0), (2, 405.0), (4, 730.0), (8, 1240.0), (16, 1810.0)].map(|(x, y)| (x, around(y, 2.0))))?
        .series("bfloat16", [(1, 380.0), (2, 690.0), (4, 1180.0), (8, 1790.0), (16, 2250.0)].map(|(x, y)| (x, around(y, 2.0))))?
        .series("int8", [(1, 610.0), (2, 1090.0), (4, 1720.0), (8, 2350.0), (16, 2790.0)].map(|(x, y)| (x, around(y, 2.0))))?
        .series("NF4", [(1, 720.0), (2, 1010.0), (4, 1390.0), (8, 1640.0), (16, 1790.0)].map(|(x, y)| (x, around(y, 2.0))))?
        .series("FP4", [(1, 715.0), (2, 1000.0), (4, 1380.0), (8, 1630.0), (16, 1780.0)].map(|(x, y)| (x, around(y, 2.0))))?
        .intervals("95% interval of the median")
        .log_x()
        .log_y()
        .note(NOTE);
    line_milliseconds => LinePlot::new("Time for each token, in milliseconds because all are short")
        .x("position in the context", "tokens")
        .y("time for a token", "s")
        .series("float32", [(16, 0.0047), (64, 0.00475), (256, 0.0051), (512, 0.0055)])?
        .series("NF4", [(16, 0.0014), (64, 0.00145), (256, 0.0018), (512, 0.0023)])?
        .reference_line(0.0039, "float32: bytes / memory bandwidth")?
        .reference_line(0.00064, "NF4: bytes / memory bandwidth")?
        .note(NOTE);
    line_long_names => LinePlot::new("A title that is much too long for one line, because somebody wanted to say everything in it at once and then some more")
        .x("the length of the prompt in tokens, as the tokenizer of the model counts them, special ones included", "tokens")
        .y("latency of fifty new tokens after the prompt, measured with the synthetic clock of the laboratory", "s")
        .series("float32 (forced on CPU), engine kernels, two threads, in turns with the others", [(1, 1.0), (2, 3.0), (3, 2.0)])?
        .series("bfloat16, engine candle", [(1, 1.1), (2, 2.6), (3, 2.05)])?
        .note("random:gpt2 | kernels | cpu (AVX2) | float32 (forced on CPU) | 2 threads | release | median of 11 runs, taking turns with the other four, after two runs that do not count; the interval holds the median with 95%");
    roofline_formats => roofline(
            "What limits GPT-2 here",
            28.0,
            &[("float32", 205.0), ("bfloat16", 340.0), ("int8", 1150.0)],
            &[
                ("decode, float32", 0.5, around(13.1, 2.0)),
                ("decode, bfloat16", 1.0, around(24.0, 3.0)),
                ("decode, int8", 2.0, around(45.0, 3.0)),
                ("16 sequences, float32", 8.0, around(140.0, 4.0)),
                ("prefill of 512, float32", 256.0, around(171.0, 2.0)),
                ("prefill of 512, int8", 1024.0, around(610.0, 2.0)),
            ],
        )?
        .intervals("95% interval of the median")
        .note(NOTE);
    line_one_point => LinePlot::new("One point").x("batch size", "").y("perplexity", "").series("float32", [(4, 8.01)])?;
    line_negative => LinePlot::new("Change against float32")
        .x("layer", "").y("change of the loss", "nats")
        .series("NF4", (0..12).map(|layer| (layer, 0.004 * f64::from(layer % 5) - 0.006)))?
        .series("FP4", (0..12).map(|layer| (layer, 0.007 * f64::from(layer % 4) - 0.012)))?
        .note(NOTE);
    line_roofline => FORMATS.iter().try_fold(
        LinePlot::new("Decode, and what memory allows").x("weights and scales for a token", "MiB").y("decode", "tokens/s")
            .log_x().log_y().intervals("98% interval of the median of 7").note(NOTE)
            .theory("memory bandwidth", [(66.6, 336.58), (589.6, 38.0)])?,
        |plot, (name, read, _, decode)| plot.series(short_name(name), [(*read, around(*decode, 14.0))]))?;
    line_theory => LinePlot::new("Throughput by batch size").x("batch size", "prompts").y("throughput", "times that of one")
        .series("embedded", [(1, 1.0), (2, 1.753), (4, 2.746), (8, 3.852), (16, 4.534)].map(|(x, y)| (x, around(y, 12.0 * y.ln()))))?
        .series("random:gpt2", [(1, 1.0), (2, 1.681), (4, 2.344), (8, 2.958)].map(|(x, y)| (x, around(y, 8.0 * y.ln()))))?
        .theory("if only reading counted", [(1, 1.0), (16, 16.0)])?
        .intervals("94% to 98% interval of the median of 5 to 7").log_x().log_y().note(NOTE);
    line_points => LinePlot::new("Latency by prompt length").x("prompt length", "tokens").y("latency of 50 new tokens", "s")
        .points("with KV cache", [(16, 0.0109, 0.0137), (76, 0.0180, 0.0194), (136, 0.0174, 0.0237), (256, 0.0319, 0.0327), (391, 0.043, 0.0456), (451, 0.0372, 0.0482)]
            .map(|(x, y, high)| (x, Estimate::new(y, 0.93 * y, high))))?
        .theory("fitted: 11.4 ms + 65 us per token", [(16, 0.0124), (451, 0.0407)])?
        .intervals("96% interval of the median of 9").note(NOTE);
    line_settles => LinePlot::new("With more texts, the number settles").x("texts evaluated", "").y("perplexity", "").log_x().log_y()
        .series("first texts of the corpus", [(5, 31.3, 22.9, 42.8), (10, 26.5, 20.3, 34.7), (20, 20.6, 14.8, 28.8), (40, 20.8, 15.8, 27.4), (80, 18.7, 15.0, 23.5), (160, 19.7, 16.8, 23.3)]
            .map(|(x, y, low, high)| (x, Estimate::new(y, low, high))))?
        .intervals("95% interval over texts").note(NOTE);
    line_near => LinePlot::new("A perplexity must not depend on the batch size").x("batch size", "texts").y("perplexity", "").log_x()
        .series("token-weighted", [1, 2, 4, 8, 16, 32].map(|x| (x, 19.7)))?
        .series("from the mean of batch means", [(1, 25.5), (2, 22.8), (4, 21.1), (8, 20.6), (16, 20.5), (32, 20.3)])?.note(NOTE);
    stems_codes => [("NF4", FourBit::Nf4), ("FP4", FourBit::Fp4)].iter().try_fold(
        LinePlot::new("How often each of the sixteen numbers is used").x("value of the codebook", "").y("share of the weights", "%")
            .reference_line(6.25, "1/16")?.note(NOTE),
        |plot, (name, format)| plot.stems(*name, format.codebook().iter().map(|v| (*v, 12.0 * (-3.0 * v * v).exp()))))?;
    line_curve => LinePlot::new("Loss while training").x("step", "").y("loss", "nats/token")
        .series("training", (1..3000).map(|step| (step, 1.1 + 4.0 / f64::from(step).sqrt() + 0.05 * f64::from(step * 7919 % 13) / 13.0)))?
        .series("held-out", (1..30).map(|step| (step * 100, 1.25 + 4.0 / f64::from(step * 100).sqrt())))?
        .log_x();
    line_block_sizes => LinePlot::new("Perplexity by block size")
        .x("bits for each weight, scales included", "").y("perplexity", "").y_from_zero(false)
        .series("NF4", [32, 64, 128, 256, 1024, 4096].map(|b| (4.0 + 32.0 / f64::from(b), 8.6 + 0.09 * f64::from(b).log2() - 0.3)))?
        .label_points("NF4", [32, 64, 128, 256, 1024, 4096])?
        .series("FP4", [32, 64, 128, 256, 1024, 4096].map(|b| (4.0 + 32.0 / f64::from(b), 9.2 + 0.16 * f64::from(b).log2() - 0.7)))?
        .label_points("FP4", [32, 64, 128, 256, 1024, 4096])?
        .reference_line(8.01, "float32")?
        .note(NOTE);
    runs_one => LinePlot::new("The same run, fifteen times").x("run", "").y("latency of 50 new tokens", "s")
        .runs("latency", noisy(0.1893, 15, 1))?.y_from_zero(false).note(NOTE);
    runs_median => LinePlot::new("The same run, fifteen times").x("run", "").y("latency of 50 new tokens", "s")
        .runs("", noisy(0.0152, 15, 1))?.note(NOTE);
    runs_drift => LinePlot::new("The same measurement at two times").x("run", "").y("latency of 50 new tokens", "s")
        .runs("first", noisy(0.0061, 15, 1))?.runs("ten minutes later", noisy(0.0066, 15, 7))?
        .y_from_zero(false).note(NOTE);
    bar_precisions => BarPlot::new("Decode by precision, at GPT-2's size")
        .x("precision").y("decode", "tokens/s")
        .bars([("float32", 41.2), ("bfloat16", 78.5), ("INT8", 121.0), ("NF4", 163.0), ("FP4", 162.0)].map(|(n, v)| (n, around(v, 3.0))))?
        .limits("memory bandwidth", [("float32", 47.0), ("bfloat16", 94.0), ("INT8", 184.0), ("NF4", 330.0), ("FP4", 330.0)])?
        .intervals("95% interval of the median").note(NOTE);
    bar_limits_near => BarPlot::new("GPT-2 size: throughput by precision").y("throughput", "tokens/s")
        .bars([("float32", Estimate::new(52.4, 50.5, 61.5)), ("float16: float32 (forced on CPU)", Estimate::new(50.8, 46.2, 54.2)), ("bfloat16", Estimate::new(88.7, 82.5, 98.3))])?
        .limits("memory bandwidth", [("float32", 66.9), ("float16: float32 (forced on CPU)", 66.9), ("bfloat16", 133.8)])?
        .intervals("98% interval of the median of 7").note(NOTE);
    bar_small => BarPlot::new("Where is the model surprised?").x("token (position)").y("negative log-likelihood", "nats")
        .bars([("capital (1)", 0.874), ("of (2)", 7.14e-6), ("France (3)", 4.73), ("is (4)", 0.000126), ("Rome (5)", 8.32), (", (6)", 16.4), ("not (7)", 5.91), ("Paris (8)", 3.43), (". (9)", 0.000806)])?
        .note(NOTE);
    bar_requested => BarPlot::new("GPT-2 size: throughput by precision").x("requested: used").y("throughput", "tokens/s")
        .bars([("float32: float32", 41.2), ("float16: float32 (forced on CPU)", 41.0), ("bfloat16: bfloat16", 78.5), ("auto: bfloat16", 78.1)]
            .map(|(n, v)| (n, around(v, 2.0))))?
        .reference_line(47.0, "limit of float32")?.reference_line(94.0, "limit of bfloat16")?
        .intervals("95% interval of the median").note(NOTE);
    bar_grouped => BarPlot::new("Throughput with the KV cache and without").x("prompt length (tokens)").y("throughput", "tokens/s")
        .series("with KV cache", [("16", 268.0), ("128", 249.0), ("448", 190.0)].map(|(n, v)| (n, around(v, 3.0))))?
        .series("without", [("16", 38.5), ("128", 12.8), ("448", 3.8)].map(|(n, v)| (n, around(v, 3.0))))?
        .intervals("95% interval of the median").note(NOTE);
    bar_codes => BarPlot::new("How often each of the sixteen numbers is used").x("from the smallest number to the largest").y("share of the weights", "%")
        .series("NF4", (1..=16).map(|n| (n.to_string(), 9.4 - 0.12 * (f64::from(n) - 8.5).powi(2))))?
        .series("FP4 (E2M1)", (1..=16).map(|n| (n.to_string(), 14.4 - 0.23 * (f64::from(n) - 8.5).powi(2))))?
        .reference_line(6.25, "1/16")?.note(NOTE);
    bar_surprise => BarPlot::new("Where is the model surprised?").x("token (position)").y("negative log-likelihood", "nats")
        .bars([("capital (1)", 6.1), ("of (2)", 0.4), ("France (3)", 4.9), ("is (4)", 1.2), ("Rome (5)", 7.9), (", (6)", 1.0), ("not (7)", 3.3), ("Paris (8)", 4.0), (". (9)", 0.7)])?
        .note(NOTE);
    bar_chosen_limit => BarPlot::new("How well one model would compress different texts").y("bits per byte", "")
        .bars([("Rust docs, held out", 1.19), ("the same, words shuffled", 2.23), ("Hamlet", 0.72), ("a small story", 2.7), ("local news", 3.22), ("German", 5.58), ("random letters", 8.08)])?
        .limits("27 characters, each as likely as the others", [("random letters", 4.755)])?.note(NOTE);
    bar_kinds => KINDS.iter().try_fold(
        BarPlot::new("What formats change in the predictions of smollm2:float32").y("KL divergence from full precision", "nats")
            .log_y().intervals("95% confidence interval"),
        |plot, (kind, name, kl, error)| plot.bar(kind, *name, Estimate::plus_minus(*kl, *error)))?;
    bar_many => BarPlot::new("Rounding error of each layer").x("layer").y("error", "%")
        .bars((0..96).map(|layer| (format!("layer {layer}"), 9.0 + 2.0 * (f64::from(layer) / 7.0).sin())))?;
    bar_negative => BarPlot::new("Change of the perplexity against float32").y("change", "%")
        .bars([("bfloat16", around(-0.02, 60.0)), ("INT8", Estimate::plus_minus(0.05, 0.09)), ("NF4", around(4.4, 8.0)), ("static int8, calibrated on four prompts", around(1.3, 9.0))])?
        .intervals("95% interval").note(NOTE);
    bar_one => BarPlot::new("One bar").y("load time", "s").bars([("float32", 0.0123)])?;
    stacked_memory => StackedBar::new("Where the memory goes, at GPT-2's size", ["embeddings and head", "layers", "the rest", "scales"])
        .y("memory", "MiB")
        .bar("float32", [150.3, 324.0, 12.4, 0.0])?.bar("bfloat16", [75.2, 162.0, 6.2, 0.0])?
        .bar("INT8", [75.2, 81.0, 6.2, 0.6])?.bar("NF4", [75.2, 40.5, 6.2, 5.1])?.bar("NF4, double quantization", [75.2, 40.5, 6.2, 1.3])?
        .note("random:gpt2; the rest: causal masks, biases, normalisations");
    stacked_times => StackedBar::new("Prefill and decode by prompt length", ["prefill", "decode"]).x("prompt length (tokens)").y("time", "s")
        .bar("16", [0.0051, 0.051])?.bar("128", [0.0118, 0.0525])?.bar("448", [0.0394, 0.0551])?.note(NOTE);
    timeline => Timeline::new("One long step over the prompt, then a short one per token")
        .run("prompt of 384 tokens", 384, 0.0341, (0..19).map(|step| 0.0044 + 0.00002 * f64::from(step)))?
        .run("prompt of 16 tokens", 16, 0.0051, [0.0041; 19])?.note(NOTE);
    serving => ServingTimeline::new("Twelve requests, three a second")
        .run("static batches of 4", &served(12, 3.0, static_batch, 4096))
        .run("continuous batching", &served(12, 3.0, first_come, 4096))
        .note("simulated: a step takes 20 ms, and 1 ms for each of its tokens");
    serving_many => ServingTimeline::new("Sixty requests, nine a second").run("", &served(60, 9.0, first_come, 4096));
    serving_preempted => ServingTimeline::new("Room for 260 tokens: who came last must begin anew")
        .run("first come", &served(8, 6.0, first_come, 260));
    timeline_long => Timeline::new("A long answer").run("", 8, 0.01, [0.01; 500])?;
    trade_off_perplexity => TradeOff::new("What the memory buys").x("memory", "MiB").y("perplexity", "")
        .point("float32", 12.61, Estimate::plus_minus(8.01, 0.04))?.point("bfloat16", 6.31, Estimate::plus_minus(8.015, 0.04))?
        .point("INT8", 4.22, Estimate::plus_minus(8.03, 0.045))?.point("static int8", 3.98, Estimate::plus_minus(8.14, 0.05))?
        .point("NF4", 2.91, Estimate::plus_minus(8.62, 0.06))?.point("NF4, double quantization", 2.83, Estimate::plus_minus(8.63, 0.06))?
        .point("NF4, int8 head", 2.31, Estimate::plus_minus(8.66, 0.06))?.point("FP4", 2.91, Estimate::plus_minus(9.31, 0.08))?
        .point("int4", 2.91, Estimate::plus_minus(9.02, 0.08))?
        .intervals("95% interval").note(NOTE);
    trade_off_kl => TradeOff::new("What the memory buys, told by the KL divergence").x("memory", "MiB").y("KL divergence", "nats/token")
        .point("bfloat16", 6.31, Estimate::plus_minus(2.1e-5, 4e-6))?
        .point("INT8", 4.22, Estimate::plus_minus(6.4e-4, 5e-5))?.point("static int8", 3.98, Estimate::plus_minus(0.0112, 8e-4))?
        .point("NF4", 2.91, Estimate::plus_minus(0.062, 0.004))?.point("NF4, int8 head", 2.31, Estimate::plus_minus(0.0625, 0.004))?
        .point("FP4", 2.91, Estimate::plus_minus(0.131, 0.008))?
        .log_x().log_y().intervals("95% interval").note(NOTE);
    trade_off_speed => TradeOff::new("Memory against speed, at GPT-2's size").x("memory", "MiB").y("decode", "tokens/s").higher_is_better()
        .point("float32", 474.7, around(41.2, 3.0))?.point("bfloat16", 237.4, around(78.5, 3.0))?.point("INT8", 156.4, around(121.0, 4.0))?
        .point("NF4", 120.4, around(163.0, 3.0))?.point("FP4", 120.4, around(162.0, 3.0))?.point("NF4, int8 head", 84.3, around(201.0, 5.0))?
        .intervals("95% interval of the median").note(NOTE);
    trade_off_engines => FORMATS.iter().try_fold(
        TradeOff::new("What memory costs in speed, at GPT-2's size").x("memory with scales", "MiB").y("decode", "tokens/s")
            .higher_is_better().log_x().log_y().intervals("98% interval of the median of 7").note(NOTE),
        |plot, (name, _, memory, decode)| plot.point(short_name(name), *memory, around(*decode, 14.0)))?;
    trade_off_long_names => FORMATS.iter().try_fold(
        TradeOff::new("The same names in full").x("memory with scales", "MiB").y("decode", "tokens/s").higher_is_better().note(NOTE),
        |plot, (name, _, memory, decode)| plot.point(*name, *memory, around(*decode, 14.0)))?;
    trade_off_lesson_3 => TradeOff::new("What the speed costs").x("time per token", "ms").y("KL divergence from float32", "nats")
        .point("float32", Estimate::new(0.2388, 0.2308, 0.2487), 0.0)?
        .point("bfloat16", Estimate::new(0.1284, 0.1252, 0.1291), Estimate::new(6.25e-5, 6.08e-5, 6.42e-5))?
        .point("int8", Estimate::new(0.1328, 0.1313, 0.1358), Estimate::new(0.0014416, 0.0014002, 0.0014829))?
        .intervals("time: 96% interval of the median of 15; divergence: 95% interval").note(NOTE);
    trade_off_variants => TradeOff::new("What memory buys in quality").x("memory with scales", "MiB").y("KL divergence from float32", "nats")
        .point("INT8", 8.623, around(0.00168, 3.0))?.point("NF4", 7.24, around(0.05716, 3.0))?.point("FP4", 7.24, around(0.10525, 3.0))?
        .point("BF16", 9.303, around(8e-5, 3.0))?.point("NF4, double", 7.304, around(0.05725, 3.0))?.point("NF4, head INT8", 8.271, around(0.05768, 3.0))?
        .point("NF4, blocks of 32", 7.428, around(0.04851, 3.0))?.point("NF4, blocks of 256", 7.1, around(0.06338, 3.0))?
        .log_y().intervals("95% confidence interval").note(NOTE);
    trade_off_block_sizes => [32, 64, 128, 256, 1024].iter().try_fold(
        TradeOff::new("Block sizes").x("bits for each weight", "").y("perplexity", "").note(NOTE), |plot, block| {
            let bits = 32.0 / f64::from(*block);
            let plot = plot.point(format!("NF4, {block}"), 4.0 + bits, around(8.9 - 0.3 * bits, 0.8))?;
            plot.point(format!("FP4, {block}"), 4.0 + bits, around(9.5 - 0.5 * bits, 0.8))
        })?;
    rug_codebooks => RugPlot::new("Where the weights are, and where the sixteen numbers").x("weight / absmax of its block", "")
        .density("weights", normal_density())?
        .codebook("NF4", FourBit::Nf4.codebook())?.codebook(FOUR_BITS[1], FourBit::Fp4.codebook())?
        .codebook(FOUR_BITS[2], &[0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0].map(|v: f32| v / 6.0).iter().flat_map(|v| [*v, -v]).collect::<Vec<_>>())?
        .codebook(FOUR_BITS[3], &(-7..=7).map(|n| n as f32 / 7.0).collect::<Vec<_>>())?
        .note("layer 3, attention, NF4's blocks of 64");
    rug_one => RugPlot::new("One codebook").codebook("NF4", FourBit::Nf4.codebook())?;
}
