/* The driver with the model of an image: `image IMAGE` and the driver's arguments. */
#define main driver_main
#include "driver.c"
#undef main

#include "ecgfed_image.h"

int main(int count, char **argument)
{
    static union {
        uint32_t aligned;
        uint8_t bytes[512 * 1024];
    } file;
    static ecgfed_image image;
    FILE *stream = count > 2 ? fopen(argument[1], "rb") : NULL;
    const size_t size = stream ? fread(file.bytes, 1, sizeof file.bytes, stream) : 0;
    if (stream) {
        fclose(stream);
    }
    if (ecgfed_image_read(&image, file.bytes, (uint32_t)size)) {
        return 8;
    }
    if (ecgfed_image_test(&image, &state)) {
        return 7;
    }
    ecgfed_image_use(&image);
    return driver_main(count - 1, argument + 1);
}
