//! Long texts in overlapping windows, and windows of similar length in batches.

use std::cmp::Reverse;

use crate::error::{Error, Result};

/// The longest window that is taken unless another is asked for: every token of it has a logit for each
/// token of the vocabulary, which for a context of 131072 would be tens of gigabytes.
const DEFAULT_WINDOW: usize = 2048;

/// How texts longer than the context are cut.
#[derive(Debug)]
pub(super) struct Cut {
    window: usize,
    stride: usize,
}

/// A piece of a text, of which the first `unscored` tokens are context only.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Window<'a> {
    pub ids: &'a [u32],
    pub unscored: usize,
}

impl Window<'_> {
    /// The tokens whose likelihood counts.
    pub fn scored(&self) -> &[u32] {
        &self.ids[self.unscored..]
    }
}

impl Cut {
    /// Windows of the whole context, at most [`DEFAULT_WINDOW`], moved by half their length, unless told otherwise.
    pub fn new(window: Option<usize>, stride: Option<usize>, context_len: usize) -> Result<Self> {
        let window = window.unwrap_or(context_len.min(DEFAULT_WINDOW));
        if window < 2 || window > context_len {
            return Err(Error::input(format!(
                "the window is {window} tokens; it must lie between 2 and the model's context of {context_len}"
            )));
        }
        let stride = stride.unwrap_or(window / 2);
        // Each window needs a token of context for the first one that it scores.
        if stride == 0 || stride >= window {
            return Err(Error::input(format!(
                "the stride is {stride} tokens; it must lie between 1 and {}",
                window - 1
            )));
        }
        Ok(Self { window, stride })
    }

    /// Windows that together score every token of a text but its first, each once.
    pub fn windows<'a>(&self, ids: &'a [u32]) -> Vec<Window<'a>> {
        let mut windows = Vec::new();
        let (mut start, mut scored) = (0, 1);
        while scored < ids.len() {
            let end = ids.len().min(start + self.window);
            windows.push(Window { ids: &ids[start..end], unscored: scored - start });
            scored = end;
            start += self.stride;
        }
        windows
    }
}

/// The windows by their indices, in batches of at most `batch_size` and, padding included, `max_tokens`,
/// unless a single window is longer. Longest first: similar lengths need little padding, and
/// if memory does not suffice, that shows at once.
pub(super) fn batches(windows: &[Window<'_>], batch_size: usize, max_tokens: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by_key(|&index| Reverse(windows[index].ids.len()));
    let mut batches = Vec::new();
    let mut rest = order.as_slice();
    while let Some(&longest) = rest.first() {
        let fit = (max_tokens / windows[longest].ids.len().max(1)).min(batch_size).max(1);
        let (batch, later) = rest.split_at(fit.min(rest.len()));
        batches.push(batch.to_vec());
        rest = later;
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_one_window() {
        let cut = Cut { window: 8, stride: 4 };
        assert_eq!(cut.windows(&[1, 2, 3]), [Window { ids: &[1, 2, 3], unscored: 1 }]);
        assert_eq!(cut.windows(&[1]), []);
        assert_eq!(cut.windows(&[]), []);
    }

    #[test]
    fn windows_that_do_not_fit_are_refused() {
        let cut = |window, stride| Cut::new(window, stride, 64);
        assert!(cut(None, None).is_ok());
        assert!(cut(Some(65), None).is_err());
        assert!(cut(Some(1), None).is_err());
        assert!(cut(Some(8), Some(8)).is_err());
        assert!(cut(Some(8), Some(0)).is_err());
    }

    #[test]
    fn only_windows_that_are_asked_for_are_long() {
        let cut = |window, context_len| {
            let Cut { window, stride } = Cut::new(window, None, context_len).unwrap();
            (window, stride)
        };
        assert_eq!(cut(None, 64), (64, 32));
        assert_eq!(cut(None, 1 << 17), (2048, 1024));
        assert_eq!(cut(Some(1 << 17), 1 << 17), (1 << 17, 1 << 16));
    }

    #[test]
    fn long_windows_make_small_batches() {
        let ids = vec![0; 1024];
        let window = |len: usize| Window { ids: &ids[..len], unscored: 1 };
        let windows = [window(1024), window(100), window(1024), window(100), window(100)];
        assert_eq!(batches(&windows, 8, 2000), [vec![0], vec![2], vec![1, 3, 4]]);
        assert_eq!(batches(&windows, 2, 2048), [vec![0, 2], vec![1, 3], vec![4]]);
        // A window that is too long on its own is still scored.
        assert_eq!(batches(&windows, 8, 200), [vec![0], vec![2], vec![1, 3], vec![4]]);
    }

    proptest! {
        #[test]
        fn every_token_but_the_first_is_scored_once(len in 0..500_u32, window in 2..64_usize, stride in 1..64_usize) {
            prop_assume!(stride < window);
            let ids: Vec<u32> = (0..len).collect();
            let windows = Cut { window, stride }.windows(&ids);
            let scored: Vec<u32> = windows.iter().flat_map(|w| w.scored()).copied().collect();
            prop_assert_eq!(scored, (1..len).collect::<Vec<_>>());
            prop_assert!(windows.iter().all(|w| w.ids.len() <= window && w.unscored >= 1));
        }

        #[test]
        fn every_window_is_in_one_batch(
            lens in prop::collection::vec(2..1024_usize, 0..40),
            size in 1..9_usize,
            max_tokens in 0..5000_usize,
        ) {
            let ids = vec![0; 1024];
            let windows: Vec<Window<'_>> = lens.iter().map(|&len| Window { ids: &ids[..len], unscored: 1 }).collect();
            let batches = batches(&windows, size, max_tokens);
            for batch in &batches {
                let longest = batch.iter().map(|&index| lens[index]).max().unwrap();
                prop_assert!(batch.len() == 1 || batch.len() * longest <= max_tokens);
                prop_assert!(batch.len() <= size);
            }
            let mut all = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lens.len()).collect::<Vec<_>>());
        }
    }
}
