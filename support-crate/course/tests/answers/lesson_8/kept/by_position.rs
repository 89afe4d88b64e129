// By the place of the first difference.
// right
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let n = guesses.len();
    match (0..n).find(|&i| guesses[i] != choices[i]) {
        Some(i) => [&guesses[..i], &choices[i..i + 1]].concat(),
        None => choices.to_vec(),
    }
}
