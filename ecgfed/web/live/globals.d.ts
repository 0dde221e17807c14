/** What paper.js is on a page. */
declare const EcgPaper: {
  draw(host: HTMLElement, strip: object, options?: object): SVGElement;
  clock(seconds: number, digits?: number): string;
  countOf(many: number, one: string): string;
};
