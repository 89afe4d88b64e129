// All choices.
// wrong: only choices up to the first
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(choices).take_while(|(guess, choice)| guess == choice).count();
    choices[..].to_vec()
}
