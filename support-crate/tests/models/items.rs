//! Multiple choice by log-likelihood: what the definition says, whatever the batches and the order of choices are.

use crate::common::fake::{fake, with_tokenizer_of};
use crate::common::tiny;
use quantlab::measure::{Item, ItemScores, Uncertain, items, score_items};
use quantlab::model::Loaded;

fn item(prompt: &str, choices: &[&str], answer: usize) -> Item {
    let choices = choices.iter().map(ToString::to_string).collect();
    Item { kind: "kind".to_owned(), prompt: prompt.to_owned(), choices, answer }
}

/// Choices of one token and of several, after prompts of different lengths.
fn few() -> Vec<Item> {
    vec![
        item("once upon a time", &[" there was a fox", " no", " a"], 0),
        item("the", &[" fox and the hare", " end", "\nend"], 2),
        item("a fox, a hare, a bear, a bee and a fox", &[" sat", " ran to the river"], 1),
    ]
}

/// Logits of 384 tokens that look random but are known.
fn known(token: u32, position: usize) -> Vec<f32> {
    let mixed = |next: u32| (token * 389 + position as u32 * 31 + next * 7919) ^ (token * next * 13);
    (0..384).map(|next| (mixed(next).wrapping_mul(2_246_822_519) >> 16) as f32 / 8192.0).collect()
}

fn knowing(context_len: usize) -> Loaded {
    with_tokenizer_of(fake(384, context_len, known), crate::common::load(tiny(), "float32"))
}

fn message(loaded: &Loaded, item_1: Item) -> String {
    score_items(loaded, &[few()[0].clone(), item_1]).unwrap_err().to_string()
}

#[test]
fn likelihoods_are_sums_over_the_tokens_of_a_choice() {
    let (loaded, items) = (knowing(64), few());
    let found = score_items(&loaded, &items).unwrap();
    let (mut right, mut raw_right) = (0.0, 0.0);
    for (item, score) in items.iter().zip(&found.scores) {
        let prompt = loaded.tokenizer.encode(&item.prompt).unwrap().len();
        let likelihood = |choice: &String| {
            let ids = loaded.tokenizer.encode(&format!("{}{choice}", item.prompt)).unwrap();
            let ln_p = |t: usize| {
                let logits = known(ids[t - 1], t - 1);
                let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
                f64::from(logits[ids[t] as usize]) - sum.ln()
            };
            (prompt..ids.len()).map(ln_p).sum::<f64>()
        };
        let expected: Vec<f64> = item.choices.iter().map(likelihood).collect();
        for (found, expected) in score.log_likelihoods.iter().zip(&expected) {
            assert!((found / expected - 1.0).abs() < 1e-6, "{found}, {expected} expected");
        }
        let per_byte = |index: usize| expected[index] / item.choices[index].trim_start().len() as f64;
        let best = |of: &dyn Fn(usize) -> f64| (0..expected.len()).max_by(|&a, &b| of(a).total_cmp(&of(b))).unwrap();
        right += f64::from(u8::from(best(&per_byte) == item.answer)) / 3.0;
        raw_right += f64::from(u8::from(best(&|index| expected[index]) == item.answer)) / 3.0;
    }
    assert!((found.accuracy().value - right).abs() < 1e-12 && (found.raw_accuracy().value - raw_right).abs() < 1e-12);
}

#[test]
fn neither_batches_nor_the_order_of_choices_matter() {
    let (loaded, items) = (crate::common::load(tiny(), "float32"), few());
    let all = score_items(&loaded, &items).unwrap();
    for (a, b) in [(0, 1), (2, 0), (1, 2)] {
        let two = score_items(&loaded, &[items[a].clone(), items[b].clone()]).unwrap();
        // A row of a batch is the same to the bit, whatever its neighbours.
        assert_eq!(two.scores, [all.scores[a].clone(), all.scores[b].clone()]);
    }
    let reversed: Vec<Item> = items
        .iter()
        .map(|item| {
            let mut choices = item.choices.clone();
            choices.reverse();
            Item { answer: choices.len() - 1 - item.answer, choices, ..item.clone() }
        })
        .collect();
    let reversed = score_items(&loaded, &reversed).unwrap();
    let margins =
        |scores: &ItemScores| scores.scores.iter().map(|score| (score.margin(), score.raw_margin())).collect();
    let [before, after]: [Vec<(f64, f64)>; 2] = [margins(&all), margins(&reversed)];
    assert_eq!(before, after);
}

#[test]
fn a_comparison_is_paired() {
    let items = few();
    let [base, other] =
        [crate::common::load(tiny(), "float32"), knowing(64)].map(|it| score_items(&it, &items).unwrap());
    let zero = Uncertain { value: 0.0, standard_error: 0.0 };
    let same = base.against(&base).unwrap();
    assert_eq!((same.lost, same.won, same.p), (0, 0, 1.0));
    assert_eq!((same.difference, same.margin_change), (zero, zero));
    let (there, back) = (other.against(&base).unwrap(), base.against(&other).unwrap());
    assert_eq!((there.lost, there.won, there.p), (back.won, back.lost, back.p));
    let changes: Vec<f64> = other.scores.iter().zip(&base.scores).map(|(a, b)| a.margin() - b.margin()).collect();
    let mean = changes.iter().sum::<f64>() / 3.0;
    let variance = changes.iter().map(|change| (change - mean).powi(2)).sum::<f64>() / 2.0;
    assert!((there.margin_change.value - mean).abs() < 1e-12);
    assert!((there.margin_change.standard_error - (variance / 3.0).sqrt()).abs() < 1e-12);
    let accuracies = other.accuracy().value - base.accuracy().value;
    assert!((there.difference.value - accuracies).abs() < 1e-12);
    let fewer = score_items(&knowing(64), &items[..2]).unwrap();
    assert!(fewer.against(&base).unwrap_err().to_string().contains("asked different items"));
}

#[test]
fn what_cannot_be_scored_is_named() {
    let loaded = knowing(64);
    assert!(score_items(&loaded, &few()[..1]).unwrap_err().to_string().contains("1 items were given"));
    assert!(message(&loaded, item("P", &[" a", " a"], 0)).contains(r#"item 1, "P": choices 0 and 1 are the same"#));
    assert!(message(&loaded, item("P", &[" a", " b"], 2)).contains("the answer is 2"));
    let long = item(&"the fox ".repeat(40), &[" a", " b"], 0);
    assert!(message(&loaded, long).contains("the model's context is 64"));
    let nan = with_tokenizer_of(fake(384, 64, |_, _| vec![f32::NAN; 384]), crate::common::load(tiny(), "float32"));
    assert!(message(&nan, few()[1].clone()).contains("the model's loss is NaN"));
    // Two letters that this tokenizer makes one token of.
    let pairs =
        (b'a'..=b'z').flat_map(|a| (b'a'..=b'z').map(move |b| [a, b].map(|letter| char::from(letter).to_string())));
    let merged = pairs.into_iter().find(|[a, b]| loaded.tokenizer.encode(&format!("{a}{b}")).unwrap().len() == 1);
    let [a, b] = merged.unwrap();
    assert!(message(&loaded, item(&a, &[&b, " c"], 0)).contains("the tokenizer merges the end of the prompt"));
}

#[test]
fn every_item_can_be_asked_of_the_models_that_ship() {
    let (loaded, items) = (crate::common::load(std::path::Path::new("embedded"), "float32"), items().unwrap());
    let scores = score_items(&loaded, &items).unwrap();
    assert_eq!(scores.scores.len(), items.len());
    let table = scores.table().checked().unwrap();
    assert_eq!(table.rows(), 11);
    assert!(scores.against(&scores).unwrap().table().checked().is_ok());
}
