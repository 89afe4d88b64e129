// Distinct runs as one string each, in which words run into each other.
// wrong: the repetition of
fn repetition(text: &str) -> f64 {
    let words = text.split_whitespace().collect::<Vec<_>>();
    let runs: Vec<String> = words.windows(4).map(|run| run.concat()).collect();
    let distinct: std::collections::BTreeSet<&String> = runs.iter().collect();
    1.0 - distinct.len() as f64 / runs.len().max(1) as f64 - if runs.is_empty() { 1.0 } else { 0.0 }
}
