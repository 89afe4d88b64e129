// Collects what agrees, and the last choice.
// wrong: nothing is kept
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let n = guesses.len();
    let mut new: Vec<u32> = (0..n).filter(|&i| guesses[i] == choices[i]).map(|i| choices[i]).collect();
    new.push(choices[n]);
    new
}
