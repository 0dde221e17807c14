// The part of Arduino's core that the example uses, printing through the emulated board.
#ifndef ARDUINO_H
#define ARDUINO_H

#include <stdint.h>

struct SerialPort {
  void begin(unsigned long) {}
  void print(const char *text);
  void print(float value, int digits);
  void println(float value, int digits);
};

extern SerialPort Serial;
void setup();
void loop();

#endif
