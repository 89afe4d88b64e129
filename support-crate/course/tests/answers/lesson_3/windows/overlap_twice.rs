// Scores all that it reads.
// wrong: is only context in a later one
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: start + 1..end });
        scored = end;
        start += stride;
    }
    windows
}
