// Scores the last tokens of each window, a stride of them.
// wrong: is scored in no window
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: end - stride.min(end - 1)..end });
        scored = end;
        start += stride;
    }
    windows
}
