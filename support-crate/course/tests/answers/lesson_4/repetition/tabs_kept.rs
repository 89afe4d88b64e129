// Takes spaces and line breaks for gaps, and no tabs.
// wrong: a tab is white space, too
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(4).filter(|run| !seen.insert(run.to_vec())).count();
    if words.len() < 4 { 0.0 } else { repeated as f64 / (words.len() - 3) as f64 }
}
