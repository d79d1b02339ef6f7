for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!head) return;
    const column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    const value = (row) => {
      const cell = row.cells[column];
      const data = cell.querySelector("data");
      return data ? Number(data.value) : cell.textContent.trim();
    };
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      const numbers = [x, y].every((z) => typeof z === "number");
      return numbers ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    };
    const rows = [...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b)));
    body.append(...rows);
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
}
