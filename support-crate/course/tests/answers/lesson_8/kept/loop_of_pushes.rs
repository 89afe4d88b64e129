// Token by token.
// right
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let mut new = Vec::new();
    for (at, choice) in choices.iter().enumerate() {
        new.push(*choice);
        if guesses.get(at) != Some(choice) {
            break;
        }
    }
    new
}
