// Stops at the first window that reaches the end.
// right
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for start in (0..tokens).step_by(stride) {
        let end = usize::min(start + window, tokens);
        let from = windows.last().map_or(1, |last| last.read.end);
        if from >= end {
            break;
        }
        windows.push(Window { read: start..end, scored: from..end });
        if end == tokens {
            break;
        }
    }
    windows
}
