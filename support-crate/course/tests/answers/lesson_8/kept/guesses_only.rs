// Only what was guessed.
// wrong: own choice at the first wrong guess
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(choices).take_while(|(guess, choice)| guess == choice).count();
    choices[..right].to_vec()
}
