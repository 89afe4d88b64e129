//! `write`: a prompt, and one drawn token after the other.

use super::reference::{self, Slip};
use super::trials::{llama, shapes};
use super::{Llama, Sampling, sampling, uniform_numbers};
use crate::cases::random;
use crate::{Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "How many times is `step` called for a prompt of n tokens and m new ones, and which call gives the logits for the first new \
     token?",
    "A new `Cache`; a `step` for each token of the prompt, of which the last one's logits count. Then for each uniform number: \
     draw a token and keep it; before every draw but the first, a `step` with the token that was drawn last. The last \
     token of all needs no step. Only new tokens are returned.",
    "`tokens.push(draw(&probabilities(&logits, sampling), uniform));`, and before it, for all but the first: `logits = \
     step(tokens[tokens.len() - 1], model, &mut cache);`",
];

/// Checks `write(model, ids, sampling, uniforms)`.
pub fn check_write(yours: fn(&Llama, &[u32], &Sampling, &[f64]) -> Vec<u32>) -> Score {
    let greedy = Sampling { temperature: 0.0, top_k: None, top_p: 1.0 };
    let drawn = Sampling { temperature: 1.5, top_k: Some(9), top_p: 0.95 };
    let texts = |sampling, counts: &[usize]| texts(&yours, sampling, counts);
    Score::new("write", HINTS)
        .point("the likeliest tokens, each after all before it", texts(&greedy, &[1, 6]))
        .point("drawn tokens, one for each uniform number", texts(&drawn, &[0, 1, 8]))
}

type Yours<'a> = dyn Fn(&Llama, &[u32], &Sampling, &[f64]) -> Vec<u32> + 'a;

fn texts(yours: &Yours<'_>, sampling: &Sampling, counts: &[usize]) -> Verdict {
    for (shape, &count) in shapes().iter().flat_map(|shape| counts.iter().map(move |count| (shape, count))) {
        let model = llama(&mut random(40 + count as u64), shape, true);
        let prompt = [1, 5, 3];
        let uniforms = uniform_numbers(count as u64, count);
        let got = ask(|| Ok(yours(&model, &prompt, sampling, &uniforms)))?;
        let after = |prompt: &[u32]| written(&model, prompt, sampling, &uniforms);
        let expected = after(&prompt);
        if got == expected {
            continue;
        }
        let mistakes = [
            ([&prompt[..], &expected].concat(), "only new tokens are returned, without the prompt"),
            (after(&prompt[2..]), "the whole prompt goes through `step`, token by token"),
            (
                written(&model, &prompt, sampling, &vec![uniforms.first().copied().unwrap_or(0.0); count]),
                "each token is drawn with a uniform number of its own",
            ),
            (
                written(&model, &prompt, &Sampling { temperature: 0.0, ..*sampling }, &uniforms),
                "those are the likeliest tokens; draw from the probabilities at the temperature that was given",
            ),
            (
                after(&[1, 5, 3, 3]),
                "the prompt's last token goes through `step` once, and its logits are those for the first new one",
            ),
        ];
        let why = mistakes.iter().find(|(tokens, _)| *tokens == got).map(|(_, why)| format!(": {why}"));
        let what = format!("write of {count} tokens after {prompt:?} at temperature {}", sampling.temperature);
        return wrong!("{what} is {got:?}, expected {expected:?}{}", why.unwrap_or_default());
    }
    Ok(())
}

fn written(model: &Llama, prompt: &[u32], sampling: &Sampling, uniforms: &[f64]) -> Vec<u32> {
    let mut all = prompt.to_vec();
    for &uniform in uniforms {
        let logits = reference::forward(&all, model, Slip::None).logits.pop().unwrap_or_default();
        let logits: Vec<f32> = logits.into_iter().map(|logit| logit as f32).collect();
        all.push(sampling::drawn_by(&logits, sampling, uniform) as u32);
    }
    all.split_off(prompt.len())
}
