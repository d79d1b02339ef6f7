//! Runs of bytes as sectors of one page each, as the arithmetic of parity needs them.
//!
//! Whole pages are shared, and all other sectors are copied.

use pages::{PAGE_SIZE, Page, PageMut, Pages};

/// Returns the sectors of a run, one page each. Sectors that are no pages of their own are copied.
pub(super) fn sectors_of(run: &Pages) -> impl Iterator<Item = Page> {
    (0..run.len() / PAGE_SIZE).map(|sector| {
        let at = sector * PAGE_SIZE;
        run.whole_page(at).cloned().unwrap_or_else(|| {
            let mut page = PageMut::zeroed();
            run.slice(at..at + PAGE_SIZE).copy_to(&mut page[..]);
            page.freeze()
        })
    })
}

/// Returns a run in which every sector is a page: the run itself, or a copy.
pub(super) fn aligned(run: Pages) -> Pages {
    if run.is_empty() || run.whole_page(0).is_some() {
        return run;
    }
    let pages: Vec<Page> = sectors_of(&run).collect();
    Pages::from_pages(pages.into_iter(), 0, run.len() as u32)
}
