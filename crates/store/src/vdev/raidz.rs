//! The columns of a raidz block, in ZFS's layout, and their contents.
//!
//! Sectors of the vdev count across its leaves, row by row. A block begins at any sector. Its first
//! `parity` columns hold parity, and the next ones data, as many as there are leaves; then the next
//! row begins. So every block is a full stripe of its own, and is never half overwritten.

pub(super) mod parity;

use pages::{PAGE_SIZE, Page, PageMut, Pages};
use smallvec::{SmallVec, smallvec};

use super::geometry::{Column, Geometry};
use super::page_runs;

/// Returns the sectors that `sectors` of payload take: a row of parity for each row of data, and
/// padding to a multiple of `parity + 1`. With the padding, no free space is too small for any
/// block.
pub(super) fn footprint(leaves: u32, parity: u32, sectors: u32) -> u32 {
    let rows = sectors.div_ceil(leaves - parity);
    (sectors + rows * parity).next_multiple_of(parity + 1)
}

/// Returns the places of a block's columns.
pub(super) fn geometry(leaves: u64, parity: u64, sector: u64, sectors: u16) -> Geometry {
    /// Number of sectors after which a single parity column changes places with the first data
    /// column. Otherwise blocks of one size could all have their parity on one leaf.
    const SWAP: u64 = 256;
    let sectors = u64::from(sectors);
    let data_columns = leaves - parity;
    let full_rows = sectors / data_columns;
    let rest = sectors % data_columns;
    // Number of columns that are one row longer.
    let longer = if rest == 0 { 0 } else { rest + parity };
    let used = if full_rows == 0 { longer } else { leaves };
    let place = |index: u64| {
        let at = sector + index;
        (Some((at % leaves) as u16), at / leaves)
    };
    let mut columns: SmallVec<[Column; 1]> = (0..used)
        .map(|index| {
            let (slot, sector) = place(index);
            let rows = full_rows + u64::from(index < longer);
            Column {
                slot,
                sector,
                sectors: rows as u32,
            }
        })
        .collect();
    if parity == 1 && sector / SWAP % 2 == 1 {
        let (left, right) = (columns[0], columns[1]);
        columns[0] = Column {
            sectors: left.sectors,
            ..right
        };
        columns[1] = Column {
            sectors: right.sectors,
            ..left
        };
    }
    let total = sectors + parity * sectors.div_ceil(data_columns);
    let padded = total.next_multiple_of(parity + 1);
    let padding = (total..padded)
        .map(|index| {
            let (slot, sector) = place(index);
            Column {
                slot,
                sector,
                sectors: 1,
            }
        })
        .collect();
    Geometry {
        columns,
        parity: parity as usize,
        padding,
    }
}

impl Geometry {
    /// Returns the content of each column for a block with this payload.
    pub(super) fn encode(&self, payload: &Pages) -> SmallVec<[Pages; 1]> {
        if self.columns.len() == 1 {
            return smallvec![payload.clone()];
        }
        let data: SmallVec<[Pages; 8]> = self
            .data_ranges()
            .map(|range| payload.slice(range))
            .collect();
        let present: SmallVec<[Option<&Pages>; 8]> = data.iter().map(Some).collect();
        let rows = self.columns[0].sectors;
        let mut columns: SmallVec<[Pages; 1]> = (0..self.parity)
            .map(|number| column_of(rows, |row| parity_of(number, &present, row)))
            .collect();
        drop(present);
        columns.extend(data);
        columns
    }
}

fn column_of(sectors: u32, sector: impl FnMut(usize) -> PageMut) -> Pages {
    let pages: Vec<Page> = (0..sectors as usize)
        .map(sector)
        .map(PageMut::freeze)
        .collect();
    Pages::from_pages(pages.into_iter(), 0, sectors * PAGE_SIZE as u32)
}

/// Computes one sector of parity column `number` over the data columns that are there. The others,
/// and sectors beyond the end of a column, count as zeros.
fn parity_of(number: usize, data: &[Option<&Pages>], row: usize) -> PageMut {
    let mut sum = PageMut::zeroed();
    for column in data {
        let sector = column.filter(|column| column.len() > row * PAGE_SIZE);
        let source = sector.and_then(|column| column.whole_page(row * PAGE_SIZE));
        let sum = &mut sum[..];
        match (source, number) {
            (Some(source), 0) => parity::add(sum, &source[..]),
            (Some(source), 1) => parity::double_and_add(sum, &source[..]),
            (Some(source), _) => parity::quadruple_and_add(sum, &source[..]),
            (None, 0) => {}
            (None, 1) => parity::double_all(sum),
            (None, _) => {
                parity::double_all(sum);
                parity::double_all(sum);
            }
        }
    }
    sum
}

/// Returns the payload from columns of which some are missing; `None` if too many are. Columns
/// begin at pages.
pub(super) fn decode(geometry: &Geometry, columns: &[Option<&Pages>]) -> Option<Pages> {
    let (parities, data) = columns.split_at(geometry.parity);
    let missing: SmallVec<[usize; 3]> = (0..data.len())
        .filter(|column| data[*column].is_none())
        .collect();
    let equations: SmallVec<[(usize, &Pages); 3]> = parities
        .iter()
        .enumerate()
        .filter_map(|(number, parity)| Some((number, (*parity)?)))
        .take(missing.len())
        .collect();
    if equations.len() < missing.len() {
        return None;
    }
    let rebuilt = rebuild(geometry, data, &missing, &equations)?;
    let mut rebuilt = rebuilt.iter();
    let pages: Vec<Page> = data
        .iter()
        .flat_map(|column| (*column).or_else(|| rebuilt.next()))
        .flat_map(page_runs::sectors_of)
        .collect();
    let len = pages.len() * PAGE_SIZE;
    Some(Pages::from_pages(pages.into_iter(), 0, len as u32))
}

/// Rebuilds the missing data columns, from as many equations of parity.
fn rebuild(
    geometry: &Geometry,
    data: &[Option<&Pages>],
    missing: &[usize],
    equations: &[(usize, &Pages)],
) -> Option<Vec<Pages>> {
    if missing.is_empty() {
        return Some(Vec::new());
    }
    let solution = invert(
        equations.iter().map(|(number, _)| *number),
        missing,
        data.len(),
    )?;
    let mut columns: Vec<Vec<Page>> = vec![Vec::new(); missing.len()];
    for row in 0..geometry.columns[0].sectors as usize {
        let at = row * PAGE_SIZE;
        // Contributions of the missing columns to each parity.
        let sums: SmallVec<[PageMut; 3]> = equations
            .iter()
            .filter_map(|(number, parity)| {
                let mut sum = parity_of(*number, data, row);
                parity::add(&mut sum[..], &parity.whole_page(at)?[..]);
                Some(sum)
            })
            .collect();
        for (index, column) in missing.iter().enumerate() {
            if geometry.columns[geometry.parity + column].sectors as usize <= row {
                continue;
            }
            let mut sector = PageMut::zeroed();
            for (sum, factor) in sums.iter().zip(solution[index]) {
                parity::add_product(&mut sector[..], &sum[..], factor);
            }
            columns[index].push(sector.freeze());
        }
    }
    let run = |pages: Vec<Page>| {
        let len = pages.len() * PAGE_SIZE;
        Pages::from_pages(pages.into_iter(), 0, len as u32)
    };
    Some(columns.into_iter().map(run).collect())
}

type Matrix = [[u8; 3]; 3];

/// Returns the inverse of the matrix that makes the sums of `parities` of the missing columns. The
/// inverse always exists: the matrix's rows are powers 0, 1 and 2 of different numbers.
fn invert(
    parities: impl Iterator<Item = usize>,
    missing: &[usize],
    columns: usize,
) -> Option<Matrix> {
    let count = missing.len();
    let (mut matrix, mut inverse) = (Matrix::default(), Matrix::default());
    for (row, number) in parities.enumerate() {
        for (at, column) in missing.iter().enumerate() {
            matrix[row][at] = parity::power(1 << number, columns - 1 - column);
        }
        inverse[row][row] = 1;
    }
    for pivot in 0..count {
        let found = (pivot..count).find(|row| matrix[*row][pivot] != 0)?;
        matrix.swap(pivot, found);
        inverse.swap(pivot, found);
        let factor = parity::inverse(matrix[pivot][pivot]);
        for at in 0..count {
            matrix[pivot][at] = parity::product(matrix[pivot][at], factor);
            inverse[pivot][at] = parity::product(inverse[pivot][at], factor);
        }
        for row in (0..count).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            for at in 0..count {
                matrix[row][at] ^= parity::product(factor, matrix[pivot][at]);
                inverse[row][at] ^= parity::product(factor, inverse[pivot][at]);
            }
        }
    }
    Some(inverse)
}
