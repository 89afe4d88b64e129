//! Text that a model or a file has made up, where a notebook or a terminal shows it.
//!
//! The notebook kernel takes lines of a cell's output that contain its own markers for commands: a tensor that is
//! called like one would be HTML of whoever wrote the file, with the rights of the page. A terminal takes control
//! characters for commands.

/// What the markers of the notebook kernel begin with; it finds some of them anywhere in a line.
const MARKER: &str = "EVCXR_";

/// The same for a reader, but no marker: a word joiner (U+2060), which has no width, is in it.
const BROKEN: &str = "EVCXR\u{2060}_";

/// Text that a model, or a file of one, has made up, to be printed: the kernel's markers are broken by an invisible
/// character, and control characters other than line breaks and tabs become U+FFFD.
///
/// The library does it in its own lines and errors; text that a function returns is the model's, to the letter. Give
/// whole lines, since a marker may begin in one piece of a line and end in the next.
///
/// ```
/// use quantlab::report::harmless;
///
/// assert_eq!(harmless("plain text,\n\tas it is"), "plain text,\n\tas it is");
/// assert_eq!(harmless("\u{1b}[2J EVCXR_BEGIN_CONTENT"), "\u{fffd}[2J EVCXR\u{2060}_BEGIN_CONTENT");
/// ```
pub fn harmless(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    // In this order: the first step leaves no letter out, and so puts no marker together.
    without_markers(&text.replace("\r\n", "\n").chars().map(shown).collect::<String>())
}

/// Text that is no command to the notebook kernel, whatever else it is.
pub(crate) fn without_markers(text: &str) -> String {
    text.replace(MARKER, BROKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_broken_wherever_they_are() {
        for text in ["EVCXR_END_CONTENT", "xEVCXR_BEGIN_CONTENT text/html", "\nEVCXR_PANIC\n", "EVCXR_EVCXR_"] {
            let shown = harmless(text);
            assert!(!shown.contains("EVCXR_"), "{shown:?}");
            assert_eq!(shown.replace('\u{2060}', ""), text);
            // Messages are put into messages.
            assert_eq!(harmless(&shown), shown);
        }
    }

    #[test]
    fn control_characters_are_shown_as_unknown_ones() {
        assert_eq!(
            harmless("a\u{1b}]0;title\u{7}b\r\u{9b}1mc\u{7f}"),
            "a\u{fffd}]0;title\u{fffd}b\u{fffd}\u{fffd}1mc\u{fffd}"
        );
        assert_eq!(harmless("EV\u{0}CXR_BEGIN_CONTENT"), "EV\u{fffd}CXR_BEGIN_CONTENT");
        assert_eq!(harmless("\u{4f60}\u{597d}\n\t\u{e4}"), "\u{4f60}\u{597d}\n\t\u{e4}");
    }
}
