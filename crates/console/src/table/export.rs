//! All rows of a table as CSV or JSON.

use serde_json::{Map, Value};

use super::cell::{Cell, Order};

/// Writes rows as CSV (RFC 4180).
pub(super) fn csv(titles: &[&str], rows: &[Vec<Cell>]) -> Vec<u8> {
    let mut out = String::new();
    let titles: Vec<String> = titles.iter().map(|title| field(title)).collect();
    out.push_str(&titles.join(","));
    out.push_str("\r\n");
    for row in rows {
        let fields = row.iter().map(|cell| match &cell.order {
            Order::Number(value) => value.to_string(),
            Order::Text(text) => field(text),
            Order::Unknown => String::new(),
        });
        out.push_str(&fields.collect::<Vec<_>>().join(","));
        out.push_str("\r\n");
    }
    out.into_bytes()
}

/// Letters with which formulas begin. Spreadsheets take the wide forms of East Asia for the others.
const FORMULAS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Writes a text as a field. A spreadsheet would take some texts as formulas, so these get a quote
/// in front.
fn field(text: &str) -> String {
    let is_formula = text.trim_start().starts_with(FORMULAS) || text.starts_with(char::is_control);
    let text = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Writes rows as JSON: a list of objects.
pub(super) fn json(keys: &[&str], rows: &[Vec<Cell>]) -> Vec<u8> {
    let object = |row: &Vec<Cell>| {
        let values = keys.iter().zip(row).map(|(key, cell)| {
            let value = match &cell.order {
                Order::Number(value) => Value::from(*value),
                Order::Text(text) => Value::from(text.as_str()),
                Order::Unknown => Value::Null,
            };
            ((*key).to_owned(), value)
        });
        Value::Object(values.collect::<Map<_, _>>())
    };
    let list = Value::Array(rows.iter().map(object).collect());
    format!("{list}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_and_are_no_formulas() {
        let rows = [
            vec![Cell::text("a,\"b\"\nc"), Cell::size(1 << 20)],
            vec![Cell::text("=HYPERLINK(\"x\")"), Cell::unknown()],
        ];
        let text = String::from_utf8(csv(&["Name", "Size"], &rows)).expect("text");
        assert_eq!(
            text,
            "Name,Size\r\n\"a,\"\"b\"\"\nc\",1048576\r\n\"'=HYPERLINK(\"\"x\"\")\",\r\n"
        );
        let text = String::from_utf8(json(&["name", "size"], &rows[..1])).expect("text");
        assert_eq!(
            text,
            "[{\"name\":\"a,\\\"b\\\"\\nc\",\"size\":1048576.0}]\n"
        );
    }
}
