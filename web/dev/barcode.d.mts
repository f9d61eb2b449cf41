/** The ten bytes of a barcode. */
export function barcodeBytes(frame: number, captureUs: number): Uint8Array;
/** Draws the barcode into a plane of luma samples, at both of its places. */
export function drawBarcode(luma: Uint8Array, width: number, height: number, frame: number, captureUs: number): void;
