// All guesses that are right.
// wrong: nothing is kept
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(choices).filter(|(guess, choice)| guess == choice).count();
    choices[..=right].to_vec()
}
