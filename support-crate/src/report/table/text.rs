//! A table on the page: HTML for notebooks, aligned text for everywhere else.

use super::super::display::escape_html;
use super::cell::Kind;
use super::{Column, Table};

/// Longer words are cut in the text form; HTML wraps them, CSV keeps them.
const WIDEST_TEXT: usize = 60;

/// Colours come from the page, so that the table reads on light and dark themes. Alignment stands in
/// the cells, because notebooks not trusted yet are shown without style sheets.
const STYLE: &str = "\
<style>
.quantlab-table table { border-collapse: collapse; margin: 0.4em 0; color: inherit; font-variant-numeric: tabular-nums; }
.quantlab-table caption { caption-side: top; text-align: left; font-weight: 600; color: inherit; padding: 0 0 0.5em 0; white-space: nowrap; }
.quantlab-table th, .quantlab-table td { padding: 0.3em 0.9em; border: none; vertical-align: top; }
.quantlab-table th { vertical-align: bottom; font-weight: 600; }
.quantlab-table td { white-space: nowrap; }
.quantlab-table td.text { white-space: pre-wrap; max-width: 40em; }
.quantlab-table thead tr { border-bottom: 1.5px solid currentColor; }
.quantlab-table tbody tr { border-bottom: 1px solid rgba(128, 128, 128, 0.35); }
.quantlab-table .unit { font-weight: normal; opacity: 0.7; }
.quantlab-table .note { opacity: 0.75; font-size: 0.9em; margin: 0.2em 0; }
</style>";

impl Table {
    /// The table as text, with aligned columns; or its error.
    pub fn to_text(&self) -> String {
        if let Some(error) = &self.error {
            return format!("{error}\n");
        }
        let columns: Vec<TextColumn> = self.columns.iter().map(TextColumn::new).collect();
        let line_of = |cell: &dyn Fn(&TextColumn) -> String| -> String {
            let line = columns.iter().map(|column| column.aligned(&cell(column))).collect::<Vec<_>>().join("  ");
            line.trim_end().to_owned()
        };
        let mut lines = Vec::new();
        if !self.title.is_empty() {
            lines.push(self.title.clone());
        }
        if !columns.is_empty() {
            lines.push(line_of(&|column| column.name.clone()));
            if columns.iter().any(|column| !column.unit.is_empty()) {
                lines.push(line_of(&|column| column.unit.clone()));
            }
            lines.push(line_of(&|column| "-".repeat(column.width)));
            lines.extend((0..self.rows()).map(|row| line_of(&|column| column.cells[row].clone())));
        }
        lines.extend(self.notes.iter().cloned());
        lines.join("\n") + "\n"
    }

    /// The table as HTML that takes its colours from the page; or its error.
    pub fn to_html(&self) -> String {
        if let Some(error) = &self.error {
            return format!("<p>{}</p>\n", escape_html(&error.to_string()));
        }
        let mut html = format!("<div class=\"quantlab-table\">\n{STYLE}\n<table>\n");
        if !self.title.is_empty() {
            html.push_str(&format!("<caption>{}</caption>\n", escape_html(&self.title)));
        }
        html.push_str("<thead><tr>");
        self.columns.iter().for_each(|column| html.push_str(&html_heading(column)));
        html.push_str("</tr></thead>\n<tbody>\n");
        let written: Vec<Vec<String>> = self.columns.iter().map(Column::written).collect();
        for row in 0..self.rows() {
            html.push_str("<tr>");
            for (column, cells) in self.columns.iter().zip(&written) {
                html.push_str(&html_cell(column, &cells[row]));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n");
        for note in &self.notes {
            html.push_str(&format!("<p class=\"note\">{}</p>\n", escape_html(note)));
        }
        html.push_str("</div>\n");
        html
    }
}

fn html_heading(column: &Column) -> String {
    let name = escape_html(&column.name);
    let unit = match column.unit.as_str() {
        "" => String::new(),
        unit => format!("<br><span class=\"unit\">{}</span>", escape_html(unit)),
    };
    format!("<th style=\"text-align: {}\">{name}{unit}</th>", side(column))
}

fn html_cell(column: &Column, content: &str) -> String {
    let content = escape_html(content);
    // A notebook that is not trusted yet is shown without style sheets; a number and its interval stay on
    // one line all the same.
    let (class, content) =
        if column.kind() == Kind::Text { (" class=\"text\"", content) } else { ("", content.replace(' ', "&nbsp;")) };
    format!("<td{class} style=\"text-align: {}\">{content}</td>", side(column))
}

fn side(column: &Column) -> &'static str {
    if column.kind() == Kind::Text { "left" } else { "right" }
}

struct TextColumn {
    name: String,
    unit: String,
    cells: Vec<String>,
    width: usize,
    numbers: bool,
}

impl TextColumn {
    fn new(column: &Column) -> Self {
        let name = one_line(&column.name);
        let unit = if column.unit.is_empty() { String::new() } else { format!("({})", one_line(&column.unit)) };
        let cells: Vec<String> = column.written().iter().map(|cell| one_line(cell)).collect();
        let texts = cells.iter().chain([&name, &unit]);
        let width = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        Self { width, numbers: column.kind() != Kind::Text, name, unit, cells }
    }

    fn aligned(&self, text: &str) -> String {
        let width = self.width;
        if self.numbers { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= WIDEST_TEXT {
        return line;
    }
    let start: String = line.chars().take(WIDEST_TEXT - 3).collect();
    format!("{}...", start.trim_end())
}
