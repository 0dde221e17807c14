/** Names of leads, and patterns of other signals' names (ecgfed/domain/record/lead_names.py). Made by tests/web/tables.py: do not edit. */

export const NAMES = {
  "ecgWord": "ecg|ekg",
  "eeg": "(?:eeg)?(?:(?:fp[12z]|af[z3478]|f[z3478]|fc[z1-6]|ft[789]|t[3-8]|cp[z1-6]|tp[789]|p[z3478]|po[z3478]|o[z12]|cz)|(?:(?:fp[12z]|af[z3478]|f[z3478]|fc[z1-6]|ft[789]|t[3-8]|cp[z1-6]|tp[789]|p[z3478]|po[z3478]|o[z12]|cz)|c[34])(?:(?:fp[12z]|af[z3478]|f[z3478]|fc[z1-6]|ft[789]|t[3-8]|cp[z1-6]|tp[789]|p[z3478]|po[z3478]|o[z12]|cz)|c[34]|[am][12]|ref|le|avg?))(?:ref|le)?",
  "kind": "(?:ecg|ekg)?(?:lead|ableitung|derivation)?(?=.)",
  "leads": {
    "-avr": [
      "-aVR",
      ""
    ],
    "ai": [
      "AI",
      ""
    ],
    "as": [
      "AS",
      ""
    ],
    "avf": [
      "aVF",
      ""
    ],
    "avl": [
      "aVL",
      ""
    ],
    "avr": [
      "aVR",
      ""
    ],
    "c1": [
      "V1",
      ""
    ],
    "c2": [
      "V2",
      ""
    ],
    "c3": [
      "V3",
      ""
    ],
    "c4": [
      "V4",
      ""
    ],
    "c5": [
      "V5",
      ""
    ],
    "c6": [
      "V6",
      ""
    ],
    "cc1": [
      "CC1",
      ""
    ],
    "cc2": [
      "CC2",
      ""
    ],
    "cc3": [
      "CC3",
      ""
    ],
    "cc4": [
      "CC4",
      ""
    ],
    "cc5": [
      "CC5",
      ""
    ],
    "cc6": [
      "CC6",
      ""
    ],
    "cm1": [
      "CM1",
      ""
    ],
    "cm2": [
      "CM2",
      ""
    ],
    "cm3": [
      "CM3",
      ""
    ],
    "cm4": [
      "CM4",
      ""
    ],
    "cm5": [
      "CM5",
      ""
    ],
    "cm6": [
      "CM6",
      ""
    ],
    "cs1": [
      "CS1",
      ""
    ],
    "cs2": [
      "CS2",
      ""
    ],
    "cs3": [
      "CS3",
      ""
    ],
    "cs4": [
      "CS4",
      ""
    ],
    "cs5": [
      "CS5",
      ""
    ],
    "cs6": [
      "CS6",
      ""
    ],
    "d1": [
      "I",
      ""
    ],
    "d2": [
      "II",
      ""
    ],
    "d3": [
      "III",
      ""
    ],
    "d4": [
      "D4",
      ""
    ],
    "d5": [
      "D5",
      ""
    ],
    "di": [
      "I",
      ""
    ],
    "dii": [
      "II",
      ""
    ],
    "diii": [
      "III",
      ""
    ],
    "es": [
      "ES",
      ""
    ],
    "i": [
      "I",
      ""
    ],
    "ii": [
      "II",
      ""
    ],
    "iii": [
      "III",
      ""
    ],
    "mcl": [
      "MCL",
      ""
    ],
    "mcl1": [
      "V1",
      "MCL"
    ],
    "mcl2": [
      "V2",
      "MCL"
    ],
    "mcl3": [
      "V3",
      "MCL"
    ],
    "mcl4": [
      "V4",
      "MCL"
    ],
    "mcl5": [
      "V5",
      "MCL"
    ],
    "mcl6": [
      "V6",
      "MCL"
    ],
    "ml1": [
      "I",
      "ML"
    ],
    "ml2": [
      "II",
      "ML"
    ],
    "ml3": [
      "III",
      "ML"
    ],
    "ml4": [
      "ML4",
      ""
    ],
    "ml5": [
      "ML5",
      ""
    ],
    "ml6": [
      "ML6",
      ""
    ],
    "mli": [
      "I",
      "ML"
    ],
    "mlii": [
      "II",
      "ML"
    ],
    "mliii": [
      "III",
      "ML"
    ],
    "mv1": [
      "V1",
      "MV"
    ],
    "mv2": [
      "V2",
      "MV"
    ],
    "mv3": [
      "V3",
      "MV"
    ],
    "mv4": [
      "V4",
      "MV"
    ],
    "mv5": [
      "V5",
      "MV"
    ],
    "mv6": [
      "V6",
      "MV"
    ],
    "nasa": [
      "NASA",
      ""
    ],
    "v": [
      "V",
      ""
    ],
    "v1": [
      "V1",
      ""
    ],
    "v1r": [
      "V1R",
      ""
    ],
    "v2": [
      "V2",
      ""
    ],
    "v2r": [
      "V2R",
      ""
    ],
    "v3": [
      "V3",
      ""
    ],
    "v3r": [
      "V3R",
      ""
    ],
    "v4": [
      "V4",
      ""
    ],
    "v4r": [
      "V4R",
      ""
    ],
    "v5": [
      "V5",
      ""
    ],
    "v5r": [
      "V5R",
      ""
    ],
    "v6": [
      "V6",
      ""
    ],
    "v6r": [
      "V6R",
      ""
    ],
    "v7": [
      "V7",
      ""
    ],
    "v7r": [
      "V7R",
      ""
    ],
    "v8": [
      "V8",
      ""
    ],
    "v8r": [
      "V8R",
      ""
    ],
    "v9": [
      "V9",
      ""
    ],
    "v9r": [
      "V9R",
      ""
    ],
    "vx": [
      "X",
      ""
    ],
    "vy": [
      "Y",
      ""
    ],
    "vz": [
      "Z",
      ""
    ],
    "x": [
      "X",
      ""
    ],
    "y": [
      "Y",
      ""
    ],
    "z": [
      "Z",
      ""
    ]
  },
  "modified": "mod(?:ified)?",
  "notEcgWords": "(?<![a-z])(?:(?:event|thor|abdo)[a-z]*|(?:cal|sample|chin|leg|abd)(?![a-z]))",
  "other": "(?<![a-z])(?:(?:resp|breath|pneum|ventil|thor|abdo|airflow|flow|nasal|canul|cannul|snor|pleth|ppg|spo|sao|sto2|osat|satur|oxim|capno|etco|temp|press|eeg|emg|eog|eng|acc|gyro|magnet|angular|posit|mark|event|status|trig|stim|annot|batter|light|noise|sync|nbp|nibp|abp|ibp|pap|icp|cvp|pcg|phono|scg|icg|bcg|gsr|eda|imped|heartrate|pulse|puls|motion|activ|counter|timestamp)|(?:res|air|abd|bp|art|ao|lap|rap|uap|uvp|fap|ubp|fbp|pcwp|pawp|paw|so2|o2|co2|hr|pr|rr|ox|stat|loc|roc|lap|edr|imp|cal|off|pos|rip|rsp|vent|nirs|skt|pes|bvp|ibi|cpap|sv|cos|tidal|vol|chin|leg|time|t|sample|label)(?![a-z]))"
};
