/* The native methods of org.ecgfed.EcgfedNative. */
#include <jni.h>

#include "ecgfed_phone.h"

#define COLUMNS 9

JNIEXPORT jlong JNICALL Java_org_ecgfed_EcgfedNative_create(JNIEnv *env, jclass type, jfloat rail_mv)
{
    (void)env, (void)type;
    return (jlong)(intptr_t)ecgfed_phone_create(rail_mv);
}

JNIEXPORT void JNICALL Java_org_ecgfed_EcgfedNative_destroy(JNIEnv *env, jclass type, jlong phone)
{
    (void)env, (void)type;
    ecgfed_phone_destroy((ecgfed_phone *)(intptr_t)phone);
}

JNIEXPORT void JNICALL Java_org_ecgfed_EcgfedNative_push(JNIEnv *env, jclass type, jlong phone, jfloatArray samples_mv)
{
    jfloat mv[512];
    const jsize count = (*env)->GetArrayLength(env, samples_mv);
    (void)type;
    for (jsize at = 0; at < count; at += 512) {
        const jsize some = count - at < 512 ? count - at : 512;
        (*env)->GetFloatArrayRegion(env, samples_mv, at, some, mv);
        ecgfed_phone_push((ecgfed_phone *)(intptr_t)phone, mv, (size_t)some);
    }
}

JNIEXPORT void JNICALL Java_org_ecgfed_EcgfedNative_finish(JNIEnv *env, jclass type, jlong phone)
{
    (void)env, (void)type;
    ecgfed_phone_finish((ecgfed_phone *)(intptr_t)phone);
}

/* The next beat: its fields in the order of ecgfed_phone_beat, or null. */
JNIEXPORT jdoubleArray JNICALL Java_org_ecgfed_EcgfedNative_next(JNIEnv *env, jclass type, jlong phone)
{
    ecgfed_phone_beat beat;
    jdoubleArray row = NULL;
    (void)type;
    if (ecgfed_phone_next((ecgfed_phone *)(intptr_t)phone, &beat)) {
        const jdouble fields[COLUMNS] = {(jdouble)beat.sample, beat.watched, beat.label, (jdouble)beat.probability,
                                         beat.uncertain, beat.far, beat.unclassified, beat.reasons,
                                         (jdouble)beat.paced};
        row = (*env)->NewDoubleArray(env, COLUMNS);
        if (row) {
            (*env)->SetDoubleArrayRegion(env, row, 0, COLUMNS, fields);
        }
    }
    return row;
}

JNIEXPORT jbyteArray JNICALL Java_org_ecgfed_EcgfedNative_counters(JNIEnv *env, jclass type, jlong phone)
{
    uint8_t bytes[1024];
    const jsize size = (jsize)ecgfed_phone_counters_bytes();
    jbyteArray array = size > (jsize)sizeof bytes ? NULL : (*env)->NewByteArray(env, size);
    (void)type;
    if (array) {
        ecgfed_phone_counters((const ecgfed_phone *)(intptr_t)phone, bytes);
        (*env)->SetByteArrayRegion(env, array, 0, size, (const jbyte *)bytes);
    }
    return array;
}

JNIEXPORT jstring JNICALL Java_org_ecgfed_EcgfedNative_className(JNIEnv *env, jclass type, jint label)
{
    const char *name = ecgfed_phone_class(label);
    (void)type;
    return name ? (*env)->NewStringUTF(env, name) : NULL;
}

JNIEXPORT jint JNICALL Java_org_ecgfed_EcgfedNative_rate(JNIEnv *env, jclass type)
{
    (void)env, (void)type;
    return ecgfed_phone_rate();
}
