// Arduino's main, and a serial port of texts and numbers that are not negative.
#include "Arduino.h"

extern "C" void print(const char *text);
extern "C" int main();

SerialPort Serial;

void SerialPort::print(const char *text) { ::print(text); }

void SerialPort::print(float value, int digits) {
  char text[24];
  int at = 23, after = digits;
  uint32_t scale = 1;
  for (int i = 0; i < digits; i++) {
    scale *= 10;
  }
  uint32_t number = static_cast<uint32_t>(value * static_cast<float>(scale) + 0.5f);
  text[at] = '\0';
  do {
    text[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
    if (--after == 0) {
      text[--at] = '.';
    }
  } while (number > 0 || after >= 0);
  print(text + at);
}

void SerialPort::println(float value, int digits) {
  print(value, digits);
  print("\n");
}

int main() {
  setup();
  return 0;
}
