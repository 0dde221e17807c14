/** The global of paper.js. */
declare const EcgPaper: {
  draw(host: HTMLElement, strip: object, options?: object): SVGElement;
  clock(seconds: number, digits?: number): string;
  countOf(count: number, noun: string): string;
};
