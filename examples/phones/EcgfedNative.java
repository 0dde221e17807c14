package org.ecgfed;

/** The functions of ecgfed_phone.h; Ecgfed.kt wraps them. */
final class EcgfedNative {
    static {
        System.loadLibrary("ecgfed");
    }

    private EcgfedNative() {}

    static native long create(float railMv);

    static native void destroy(long phone);

    static native void push(long phone, float[] samplesMv);

    static native void finish(long phone);

    /** Fields of the next beat in the order of ecgfed_phone_beat, or null. */
    static native double[] next(long phone);

    static native byte[] counters(long phone);

    static native String className(int label);

    static native int rate();
}
