/**
 * Small discontinuity numbers for hls.js. It keeps arrays whose index is the playlist's `EXT-X-DISCONTINUITY-SEQUENCE`
 * and copies them (`initPTS.slice`): a server that counts from a moment in Unix seconds, as any may (RFC 8216bis
 * §4.4.3.3 bounds nothing), has the page take gigabytes and end.
 */
const TAG = /^(#EXT-X-DISCONTINUITY-SEQUENCE:)(\d+)/m;

/**
 * The first playlist's number: others of the presentation may begin earlier. That of the sound does where the pictures came
 * later, and hls.js waits for ever where the same place has two numbers.
 */
export const FIRST_NUMBER = 1000;

export class DiscontinuityNumbers {
  private base: number | null = null;

  /** The playlist with numbers that count from about its first one; all playlists of one presentation share them. */
  shorten(playlist: string): string {
    return playlist.replace(TAG, (_all, tag: string, digits: string) => {
      const number = Number(digits);
      this.base ??= number - FIRST_NUMBER;
      return `${tag}${Math.max(0, number - this.base)}`;
    });
  }
}
