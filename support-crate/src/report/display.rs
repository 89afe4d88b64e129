//! How a value reaches the notebook: content blocks on standard output, one per MIME type.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};
use crate::output::without_markers;

/// Shows a cell's value as HTML, with plain text for places that have no HTML.
///
/// The kernel keeps the last block of each type and sends them as one result when the cell ends,
/// so a cell shows one such value; several as one by [`show_together`].
pub fn show(text: &str, html: &str) {
    show_blocks(&[("text/plain", text), ("text/html", html)]);
}

/// Shows a cell's value in several MIME types at once; the notebook picks the richest it can draw.
pub fn show_blocks(blocks: &[(&str, &str)]) {
    let is_kept = TOGETHER.with_borrow_mut(|together| {
        let Some(together) = together else { return false };
        for (mime, content) in blocks {
            // The picture is in the HTML too.
            if let Some((_, all)) = together.iter_mut().find(|(kept, _)| kept == mime) {
                all.push_str(content.trim_end());
                all.push('\n');
            }
        }
        true
    });
    if is_kept {
        return;
    }
    let mut out = std::io::stdout().lock();
    // A notebook that went away is no reason to fail a measurement: errors of writing are dropped.
    let _ = out.write_all(content_blocks(blocks).as_bytes()).and_then(|()| out.flush());
}

thread_local! {
    /// What [`show_together`] has collected, by MIME type.
    static TOGETHER: RefCell<Option<[(&'static str, String); 2]>> = const { RefCell::new(None) };
}

/// Shows all values that `show` shows as one, each below the other, since a cell has one.
///
/// ```
/// use quantlab::report::{Summary, Table, show_together};
///
/// show_together(|| {
///     Table::new("Formats").column("bits", "", [32, 8]).evcxr_display();
///     Summary::new("What it shows").point("8 are fewer than 32").evcxr_display();
///     Ok(())
/// })?;
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// Those of `show`; what it has shown before is shown.
pub fn show_together(show: impl FnOnce() -> Result<()>) -> Result<()> {
    /// Shows what was collected, also after a panic; within another one, as a part of that.
    struct Outer(Option<[(&'static str, String); 2]>);
    impl Drop for Outer {
        fn drop(&mut self) {
            if let Some(blocks) = TOGETHER.replace(self.0.take()) {
                show_blocks(&blocks.each_ref().map(|(mime, content)| (*mime, content.as_str())));
            }
        }
    }
    let _outer = Outer(TOGETHER.replace(Some([("text/plain", String::new()), ("text/html", String::new())])));
    show()
}

/// Replaces the characters that mean something in HTML, so that text shows as it is.
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// An SVG picture as a data URI for an image.
///
/// Notebooks that the reader has not run yet are shown with scripts and inline SVG taken out, but
/// with images; an image also keeps its own styles and ids apart from those of the page.
pub fn svg_data_uri(svg: &str) -> String {
    let mut uri = String::with_capacity(svg.len() * 5 / 4);
    uri.push_str("data:image/svg+xml;charset=utf-8,");
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => uri.push(byte as char),
            b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'=' | b',' | b';' | b'(' | b')' => uri.push(byte as char),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Writes a file.
pub(crate) fn save(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).map_err(|error| {
        Error::from(error)
            .context(format!("writing {}", path.display()))
            .hint("does the folder exist, and can you write to it?")
    })
}

fn content_blocks(blocks: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (mime, content) in blocks {
        out.push_str(&format!("EVCXR_BEGIN_CONTENT {mime}\n"));
        // Text that talks about the markers must not act as one.
        for line in without_markers(content).lines() {
            out.push_str(line);
            out.push('\n');
        }
        out.push_str("EVCXR_END_CONTENT\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_framed_one_after_the_other() {
        let out = content_blocks(&[("text/plain", "a\nb"), ("text/html", "<b>a</b>\n")]);
        assert_eq!(
            out,
            "EVCXR_BEGIN_CONTENT text/plain\na\nb\nEVCXR_END_CONTENT\n\
             EVCXR_BEGIN_CONTENT text/html\n<b>a</b>\nEVCXR_END_CONTENT\n"
        );
    }

    #[test]
    fn content_cannot_end_its_block() {
        let out = content_blocks(&[("text/plain", "EVCXR_END_CONTENT\nmore EVCXR_END_CONTENT")]);
        assert_eq!(out.matches("EVCXR_END_CONTENT").count(), 1);
    }

    #[test]
    fn values_that_are_shown_together_are_one() {
        let collected =
            || TOGETHER.with_borrow(|together| together.as_ref().map(|all| all.clone().map(|(_, all)| all)));
        show_together(|| {
            show("a", "<b>a</b>");
            show_together(|| {
                show_blocks(&[("image/svg+xml", "<svg>"), ("text/html", "<img>\n"), ("text/plain", "b")]);
                Ok(())
            })?;
            assert_eq!(collected(), Some(["a\nb\n".to_owned(), "<b>a</b>\n<img>\n".to_owned()]));
            Ok(())
        })
        .unwrap();
        assert!(collected().is_none());
        assert!(show_together(|| Err(Error::input("no"))).is_err() && collected().is_none());
    }

    #[test]
    fn html_is_escaped() {
        assert_eq!(escape_html("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
    }

    #[test]
    fn a_data_uri_has_no_character_that_an_attribute_or_address_gives_meaning_to() {
        let uri = svg_data_uri("<svg a=\"#1\">50% \u{b5}s</svg>\n");
        assert!(uri.starts_with("data:image/svg+xml;charset=utf-8,%3Csvg%20a=%22%231%22%3E"));
        assert!(uri.contains("50%25%20%C2%B5s") && uri.is_ascii());
    }
}
