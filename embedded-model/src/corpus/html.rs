//! Readable text from the pages of mdBook and rustdoc.

use scraper::node::Element;
use scraper::{ElementRef, Html, Node, Selector};

/// Code blocks are cut after the last line that fits.
const CODE_LIMIT: usize = 700;

/// A piece of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A heading, or the signature of an item. It makes sense only with what follows it.
    Heading(String),
    /// A paragraph, a list item or a row of a table.
    Prose(String),
    /// Lines of code.
    Code(String),
}

/// Which program made a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// A chapter of a book.
    MdBook,
    /// The documentation of an item.
    Rustdoc,
}

/// Reads the blocks of a page in their order.
pub fn blocks(html: &str, flavor: Flavor) -> Vec<Block> {
    let page = Html::parse_document(html);
    let Ok(main) = Selector::parse("main") else {
        return Vec::new();
    };
    let mut reader = Reader::default();
    if let Some(main) = page.select(&main).next() {
        match flavor {
            Flavor::MdBook => reader.flow(main),
            Flavor::Rustdoc => reader.rustdoc(main),
        }
    }
    reader.blocks
}

#[derive(Default)]
struct Reader {
    blocks: Vec<Block>,
}

impl Reader {
    /// Finds titles, signatures and prose in a page of rustdoc; everything else there is navigation.
    fn rustdoc(&mut self, parent: ElementRef) {
        for child in parent.child_elements() {
            let element = child.value();
            if skipped(element) {
                continue;
            }
            if has_class(element, "docblock") {
                self.flow(child);
            } else if element.name() == "h1" || has_class(element, "code-header") {
                self.heading(child);
            } else {
                self.rustdoc(child);
            }
        }
    }

    /// Reads block after block; text that stands between blocks is a paragraph of its own.
    fn flow(&mut self, parent: ElementRef) {
        let mut loose = String::new();
        for child in parent.children() {
            let element = ElementRef::wrap(child);
            match (child.value(), element) {
                (Node::Text(text), _) => loose.push_str(text),
                (_, Some(element)) if skipped(element.value()) => {}
                (_, Some(element)) if is_inline(element.value()) => inline(element, &mut loose),
                (_, Some(element)) => {
                    self.prose(&std::mem::take(&mut loose));
                    self.block(element);
                }
                _ => {}
            }
        }
        self.prose(&loose);
    }

    fn block(&mut self, element: ElementRef) {
        match element.value().name() {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(element),
            "p" | "dt" => self.prose(&inline_text(element)),
            "pre" => self.code(element),
            "li" | "dd" => {
                let first = self.blocks.len();
                self.flow(element);
                if let Some(Block::Prose(text)) = self.blocks.get_mut(first) {
                    text.insert_str(0, "- ");
                }
            }
            "tr" => {
                let cells = element.child_elements().map(inline_text);
                let cells: Vec<String> = cells.map(|cell| one_line(&cell)).collect();
                self.prose(&cells.join(" | "));
            }
            _ => self.flow(element),
        }
    }

    fn heading(&mut self, element: ElementRef) {
        let text = one_line(&inline_text(element).replace('`', ""));
        if !text.is_empty() {
            self.blocks.push(Block::Heading(text));
        }
    }

    fn prose(&mut self, text: &str) {
        let text = one_line(text);
        if text.chars().any(char::is_alphanumeric) {
            self.blocks.push(Block::Prose(text));
        }
    }

    fn code(&mut self, element: ElementRef) {
        let mut text = String::new();
        code_text(element, &mut text);
        let mut kept = String::new();
        for line in plain_marks(&text).trim_matches('\n').lines() {
            if kept.len() + line.len() > CODE_LIMIT {
                break;
            }
            kept.push_str(line.trim_end());
            kept.push('\n');
        }
        if !kept.trim().is_empty() {
            let code = kept.trim_end().to_owned();
            self.blocks.push(Block::Code(code));
        }
    }
}

fn has_class(element: &Element, class: &str) -> bool {
    element.classes().any(|c| c == class)
}

/// Buttons, anchors, pictures and lines that the reader of a page does not see.
fn skipped(element: &Element) -> bool {
    const NAMES: [&str; 7] = ["script", "style", "button", "svg", "nav", "sup", "rustdoc-toolbar"];
    const CLASSES: [&str; 8] =
        ["boring", "buttons", "doc-anchor", "rightside", "src", "stab", "sub-heading", "tooltip"];
    NAMES.contains(&element.name()) || element.classes().any(|c| CLASSES.contains(&c))
}

fn is_inline(element: &Element) -> bool {
    const NAMES: [&str; 14] =
        ["a", "abbr", "b", "br", "code", "del", "em", "i", "kbd", "q", "small", "span", "strong", "wbr"];
    NAMES.contains(&element.name())
}

fn inline_text(element: ElementRef) -> String {
    let mut text = String::new();
    for child in element.children() {
        match (child.value(), ElementRef::wrap(child)) {
            (Node::Text(part), _) => text.push_str(part),
            (_, Some(child)) => inline(child, &mut text),
            _ => {}
        }
    }
    text
}

fn inline(element: ElementRef, text: &mut String) {
    if skipped(element.value()) {
        return;
    }
    match element.value().name() {
        "br" => text.push(' '),
        "code" => {
            text.push('`');
            text.push_str(&inline_text(element).replace('`', ""));
            text.push('`');
        }
        _ => text.push_str(&inline_text(element)),
    }
}

fn code_text(element: ElementRef, text: &mut String) {
    for child in element.children() {
        match (child.value(), ElementRef::wrap(child)) {
            (Node::Text(part), _) => text.push_str(part),
            (_, Some(child)) if !skipped(child.value()) => code_text(child, text),
            _ => {}
        }
    }
}

fn one_line(text: &str) -> String {
    let plain = plain_marks(text);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes typographic marks as a keyboard does, so that one spelling of them is enough to learn.
fn plain_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for mark in text.chars() {
        match mark {
            '\u{2018}' | '\u{2019}' => plain.push('\''),
            '\u{201c}' | '\u{201d}' => plain.push('"'),
            '\u{2013}' | '\u{2014}' => plain.push('-'),
            '\u{2026}' => plain.push_str("..."),
            '\u{a0}' => plain.push(' '),
            '\u{a7}' | '\u{200b}' => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(text: &str) -> Block {
        Block::Heading(text.to_owned())
    }

    fn prose(text: &str) -> Block {
        Block::Prose(text.to_owned())
    }

    fn code(text: &str) -> Block {
        Block::Code(text.to_owned())
    }

    #[test]
    fn a_chapter_becomes_headings_paragraphs_items_and_code() {
        let html = "<html><nav>menu</nav><main><h1 id=a><a href='#a'>for loops</a></h1>
            <p>Use <code>for</code>;\n it\u{2019}s <em>easy</em>.</p>
            <ul><li>one</li><li><p>two</p></li></ul>
            <pre><button>copy</button><code><span class=boring>fn main() {\n</span>let a = 1;\n\nlet b;</code></pre>
            </main></html>";
        let expected = [
            heading("for loops"),
            prose("Use `for`; it's easy."),
            prose("- one"),
            prose("- two"),
            code("let a = 1;\n\nlet b;"),
        ];
        assert_eq!(blocks(html, Flavor::MdBook), expected);
    }

    #[test]
    fn a_page_of_rustdoc_gives_titles_signatures_and_docs_only() {
        let html = "<main><div class=main-heading><h1>Function <span>read</span>
            <button>Copy</button></h1><span class=sub-heading>1.0</span></div>
            <pre class='rust item-decl'><code>pub fn read()</code></pre>
            <details><summary>Expand description</summary>
            <div class=docblock><p>Reads a file.</p></div></details>
            <details><summary><section><a class='src rightside'>Source</a>
            <h4 class=code-header>fn len(&amp;self) -&gt; usize</h4></section></summary>
            <div class=docblock><p>The length.</p></div></details></main>";
        let expected =
            [heading("Function read"), prose("Reads a file."), heading("fn len(&self) -> usize"), prose("The length.")];
        assert_eq!(blocks(html, Flavor::Rustdoc), expected);
    }

    #[test]
    fn long_code_is_cut_at_a_line() {
        let line = "let x = 1;";
        let html = format!("<main><pre>{}</pre></main>", format!("{line}\n").repeat(500));
        let [Block::Code(text)] = &blocks(&html, Flavor::MdBook)[..] else {
            panic!("one block of code");
        };
        assert!(text.len() <= CODE_LIMIT && text.ends_with(line));
    }

    #[test]
    fn a_page_without_content_is_empty() {
        assert_eq!(blocks("", Flavor::MdBook), []);
        assert_eq!(blocks("<p>no main</p>", Flavor::Rustdoc), []);
    }
}
