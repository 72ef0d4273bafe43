"""Translation models behind one protocol: encode, teacher-forced decode, step."""
