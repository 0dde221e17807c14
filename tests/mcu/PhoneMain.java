package org.ecgfed;

import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Reads little-endian float32 millivolts from standard input; prints a line for each beat, and last the counts. */
final class PhoneMain {
    public static void main(String[] args) throws IOException {
        final int chunk = Integer.parseInt(args[0]);
        final byte[] bytes = new DataInputStream(System.in).readAllBytes();
        final float[] mv = new float[bytes.length / 4];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(mv);
        final long phone = EcgfedNative.create(5.115f);
        for (int at = 0; at < mv.length; at += chunk) {
            EcgfedNative.push(phone, java.util.Arrays.copyOfRange(mv, at, Math.min(at + chunk, mv.length)));
            print(phone);
        }
        EcgfedNative.finish(phone);
        print(phone);
        final StringBuilder hex = new StringBuilder();
        for (final byte one : EcgfedNative.counters(phone)) {
            hex.append(String.format("%02x", one));
        }
        System.out.println("counters " + hex);
        EcgfedNative.destroy(phone);
    }

    private static void print(final long phone) {
        for (double[] row = EcgfedNative.next(phone); row != null; row = EcgfedNative.next(phone)) {
            final StringBuilder line = new StringBuilder(EcgfedNative.className((int) row[2]));
            for (final double value : row) {
                line.append(' ').append(value);
            }
            System.out.println(line);
        }
    }
}
