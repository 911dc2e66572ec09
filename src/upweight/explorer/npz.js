// NumPy's npz: a zip of arrays, stored as they are.

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

// One array: magic, version 1.0, header (padded to a multiple of 64), numbers.
function npy(array) {
  const type = array instanceof Float64Array ? "<f8" : "<i8";
  const header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${array.length},), }`;
  const padded = header.padEnd(64 * Math.ceil((header.length + 11) / 64) - 11) + "\n";
  const start = Uint8Array.from([0x93, ..."NUMPY\x01\x00"].map((c) => (typeof c === "string" ? c.charCodeAt(0) : c)));
  const bytes = new Uint8Array(10 + padded.length + array.byteLength);
  bytes.set(start);
  new DataView(bytes.buffer).setUint16(8, padded.length, true);
  bytes.set(new TextEncoder().encode(padded), 10);
  bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), 10 + padded.length);
  return bytes;
}

// Little-endian fields of 2 or 4 bytes each, then a text.
function record(fields, text = "") {
  const bytes = new Uint8Array(fields.reduce((sum, [size]) => sum + size, 0) + text.length);
  const view = new DataView(bytes.buffer);
  let place = 0;
  for (const [size, value] of fields) {
    size === 2 ? view.setUint16(place, value, true) : view.setUint32(place, value, true);
    place += size;
  }
  bytes.set(new TextEncoder().encode(text), place);
  return bytes;
}

// { name: Float64Array or BigInt64Array } -> Blob
export function npz(arrays) {
  const parts = [], directory = [];
  let offset = 0;
  for (const [key, array] of Object.entries(arrays)) {
    const name = `${key}.npy`, content = npy(array), size = content.length;
    const about = [[2, 20], [2, 0], [2, 0], [2, 0], [2, 0x21], [4, crc32(content)], [4, size], [4, size], [2, name.length], [2, 0]];
    const head = record([[4, 0x04034b50], ...about], name);
    directory.push(record([[4, 0x02014b50], [2, 20], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]], name));
    parts.push(head, content);
    offset += head.length + size;
  }
  const length = directory.reduce((sum, entry) => sum + entry.length, 0), count = directory.length;
  const end = record([[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, length], [4, offset], [2, 0]]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
